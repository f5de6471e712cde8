// Reads and writes by chance on a store, compared with plain memory: what is written last is read, whatever is under way beside it.
//
//   RandomTransfers transfers(store, bytes, seed);
//   transfers.Run(200);       // EXPECT()s by itself
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "shard/offload/block_store.h"
#include "tests/shard/offload/aligned_memory.h"

namespace weft::test {

class RandomTransfers {
 public:
  // `store` is of `bytes` zeros. Transfers lie in `slots`, one in each at most.
  RandomTransfers(BlockStore& store, size_t bytes, const std::vector<AlignedMemory>& slots,
                  uint64_t seed);

  // Starts so many transfers, waits for them in an order by chance, and reads everything in the end.
  void Run(int count);

 private:
  struct UnderWay {
    BlockStore::Ticket ticket = 0;
    size_t slot = 0;
    size_t offset = 0;
    size_t bytes = 0;
    bool reads = false;
  };

  bool IsFree(size_t offset, size_t bytes) const;
  void StartOne();
  void WaitForOne();
  void CompareAll();

  BlockStore& store_;
  const std::vector<AlignedMemory>& slots_;
  std::mt19937_64 random_;
  std::vector<std::byte> expected_;
  std::vector<UnderWay> under_way_;
  std::vector<size_t> free_slots_;
};

}  // namespace weft::test
