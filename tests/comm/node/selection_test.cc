// That a call goes by the protocol that weft_explain says: all kinds, sizes, memories and protocols asked for, on ranks that
// one thread polls in turn.
#include <memory>
#include <string>
#include <vector>

#include "base/seams.h"
#include "comm/group/block_layout.h"
#include "comm/kernels/custom_op.h"
#include "comm/node/count_exchange.h"
#include "comm/node/explain.h"
#include "comm/node/heap.h"
#include "comm/node/make_group.h"
#include "comm/node/operation.h"
#include "gtest/gtest.h"

namespace weft::test::selection_test {
namespace {

constexpr size_t kCounts[] = {0, 1, 4, 12, 13, 100, 333, 1024, 2049, 5000, 70'000};
constexpr size_t kCountMax = 70'000;

// The ranks of a group, without anything that runs them.
class Ranks {
 public:
  explicit Ranks(int size) {
    const std::shared_ptr<NodePeer> self = *NodePeer::Self();
    const uint64_t offset = *MakeSegment(size, kGroupId, 1);
    segment_ = self->base() + offset;
    for (int rank = 0; rank < size; ++rank) {
      NodeState state;
      state.rank = rank;
      state.size = size;
      state.peers.assign(static_cast<size_t>(size), self);
      states_.push_back(*EnterSegment(std::move(state), offset, kGroupId, "polled"));
    }
  }

  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  ~Ranks() {
    for (const NodeState& state : states_) {
      if (state.staging.base() != nullptr) (void)ProcessHeap().Free(state.staging.base());
    }
    (void)ProcessHeap().Free(segment_);
  }

  int size() const { return static_cast<int>(states_.size()); }

  NodeState& state(int rank) { return states_[static_cast<size_t>(rank)]; }

  // By what it went, or "none" if that was refused.
  std::string Run(const std::vector<Collective>& calls) {
    ++sequence_;
    std::vector<PreparedCall> prepared;
    for (int rank = 0; rank < size(); ++rank) {
      if (!CheckAlgorithm(calls[static_cast<size_t>(rank)], state(rank)).ok()) {
        --sequence_;
        return "none";
      }
      prepared.emplace_back(calls[static_cast<size_t>(rank)], state(rank));
    }
    std::vector<std::unique_ptr<Operation>> operations;
    for (int rank = 0; rank < size(); ++rank) {
      operations.push_back(
          std::make_unique<Operation>(prepared[static_cast<size_t>(rank)], sequence_, state(rank)));
    }
    std::vector<bool> ended(operations.size(), false);
    size_t left = operations.size();
    std::string by;
    for (int turn = 0; left > 0; ++turn) {
      if (turn == 1'000'000) return "nothing: the ranks wait for each other";
      const size_t rank = static_cast<size_t>(turn) % operations.size();
      if (ended[rank]) continue;
      const Operation::Result result = operations[rank]->Poll();
      if (result == Operation::Result::kBlocked) continue;
      ended[rank] = true;
      --left;
      const bool refused = result == Operation::Result::kRefused;
      if (!refused && result != Operation::Result::kDone) {
        return "nothing: " + std::string(operations[rank]->error().message());
      }
      const std::string own = refused ? "none" : ProtocolName(operations[rank]->protocol());
      if (!by.empty() && own != by) return by + " on one rank, " + own + " on another";
      by = own;
    }
    return by;
  }

 private:
  static constexpr uint64_t kGroupId = 77;

  char* segment_;
  std::vector<NodeState> states_;
  uint64_t sequence_ = 0;
};

// in and out of every rank, with room for a block of each rank.
class Buffers {
 public:
  Buffers(int ranks, bool symmetric) : symmetric_(symmetric) {
    for (int i = 0; i < 2 * ranks; ++i) {
      const size_t bytes = kCountMax * static_cast<size_t>(ranks) * sizeof(float);
      if (symmetric) {
        memory_.push_back(*ProcessHeap().Allocate(bytes));
      } else {
        private_.emplace_back(bytes);
        memory_.push_back(private_.back().data());
      }
    }
  }

  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  ~Buffers() {
    for (void* const memory : memory_) {
      if (symmetric_) (void)ProcessHeap().Free(memory);
    }
  }

  void* in(int rank) const { return memory_[static_cast<size_t>(2 * rank)]; }

  void* out(int rank) const { return memory_[static_cast<size_t>(2 * rank + 1)]; }

 private:
  const bool symmetric_;
  std::vector<std::vector<char>> private_;
  std::vector<void*> memory_;
};

// The call of one rank: every block has `count` elements. In gather_v and scatter_v as well, where the counts that a rank
// does not have are zero.
Collective MakeCall(OpKind kind, size_t count, int rank, int ranks, const Buffers& buffers) {
  Collective call{.kind = kind,
                  .dtype = kind == OpKind::kBarrier ? WEFT_UINT8 : WEFT_FLOAT32,
                  .count = kind == OpKind::kBarrier ? 0 : count,
                  .in = buffers.in(rank),
                  .out = buffers.out(rank)};
  const OpTraits& traits = TraitsOf(kind);
  const auto layout = std::make_shared<BlockLayout>();
  if (traits.iov) {
    const weft_iov_t parts[] = {{buffers.in(rank), buffers.out(rank), count}};
    EXPECT_TRUE(LayOutParts(parts, 1, layout.get(), &call).ok());
    call.layout = layout;
  } else if (HasLayout(kind)) {
    const bool root = rank == call.root;
    const std::vector<size_t> all(static_cast<size_t>(ranks), count);
    const std::vector<size_t> none(static_cast<size_t>(ranks), 0);
    const size_t* const in = kind == OpKind::kScatterV && !root ? none.data() : all.data();
    const size_t* const out = kind == OpKind::kGatherV && !root ? none.data() : all.data();
    const absl::Status laid =
        LayOutBlocks({in, nullptr}, {out, nullptr}, rank, ranks, layout.get(), &call);
    EXPECT_TRUE(laid.ok()) << laid;
    call.layout = layout;
  }
  return call;
}

std::string Explained(const std::string& text) {
  const std::string name = "\nalgorithm: ";
  const size_t begin = text.find(name) + name.size();
  return text.substr(begin, text.find_first_of(",\n", begin) - begin);
}

TEST(Selection, WhatIsExplainedIsWhatRuns) {
  int cases = 0;
  for (const int size : {1, 2, 3, 4}) {
    Ranks ranks(size);
    for (const bool symmetric : {false, true}) {
      const Buffers buffers(size, symmetric);
      const BufferKind memory = symmetric ? BufferKind::kSymmetric : BufferKind::kPrivate;
      for (int kind = 0; kind < kOpKindCount; ++kind) {
        for (const size_t count : kCounts) {
          for (int asked = 0; asked < kNamedProtocolCount; ++asked) {
            std::vector<Collective> calls;
            for (int rank = 0; rank < size; ++rank) {
              calls.push_back(MakeCall(static_cast<OpKind>(kind), count, rank, size, buffers));
              calls.back().algorithm = static_cast<Protocol>(asked);
            }
            const std::string text = ExplainCollective(calls[0], memory, ranks.state(0));
            ASSERT_EQ(ranks.Run(calls), Explained(text))
                << text << "asked for " << ProtocolName(static_cast<Protocol>(asked));
            ++cases;
          }
        }
      }
    }
  }
  EXPECT_EQ(cases, 4 * 2 * kOpKindCount * 11 * kNamedProtocolCount);
}

}  // namespace
}  // namespace weft::test::selection_test
