// Memory at addresses that O_DIRECT takes, zeroed.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "shard/offload/block_store.h"

namespace weft::test {

class AlignedMemory {
 public:
  explicit AlignedMemory(size_t bytes)
      : bytes_(bytes),
        data_(static_cast<std::byte*>(std::aligned_alloc(BlockStore::kAlignment, bytes))) {
    std::memset(data_.get(), 0, bytes);
  }

  std::byte* data() const { return data_.get(); }

  size_t size() const { return bytes_; }

  std::span<std::byte> span() const { return {data_.get(), bytes_}; }

  // It may still be written to: it is never freed.
  void LeaveBehind() { (void)data_.release(); }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };

  size_t bytes_;
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace weft::test
