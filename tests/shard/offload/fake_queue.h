// A queue over memory whose requests go as the test says: whole, in part, not at all, later, never.
//
//   FakeQueue queue(1 << 20, 8, [](const BlockRequest& request) { return FakeQueue::Error(EIO); });
//
// Ends come in an order by chance, from a seed. Not for several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "shard/offload/block_queue.h"

namespace weft::test {

class FakeQueue : public BlockQueue {
 public:
  struct Answer {
    int64_t moved = INT64_MAX;  // at most; or -errno
    int takes = 0;              // calls of Take() before it ends; below 0: it never does
  };

  using Decide = std::function<Answer(const BlockRequest&)>;

  static Answer Whole() { return {}; }

  static Answer Short(int64_t bytes) { return {.moved = bytes}; }

  static Answer Error(int error_number) { return {.moved = -int64_t{error_number}}; }

  static Answer Late(int takes) { return {.takes = takes}; }

  static Answer Never() { return {.takes = -1}; }

  // `memory` is the file.
  FakeQueue(std::vector<std::byte>& memory, size_t depth, uint64_t seed, Decide decide);

  bool Start(const BlockRequest& request) override;
  void Submit() override;
  size_t Take(std::span<BlockEnd> ends, int64_t deadline_ns) override;

  size_t depth() const override { return depth_; }

  std::string_view how() const override { return "by chance"; }

  // Requests that are with "the kernel": started, submitted and not taken.
  size_t under_way() const { return submitted_.size(); }

 private:
  struct UnderWay {
    BlockRequest request;
    Answer answer;
  };

  BlockEnd Carry(const UnderWay& one);

  std::vector<std::byte>& memory_;
  const size_t depth_;
  std::mt19937_64 random_;
  const Decide decide_;
  std::vector<BlockRequest> started_;
  std::vector<UnderWay> submitted_;
};

}  // namespace weft::test
