// Different calls that have one signature: found by search, on every protocol, before a byte of a result is written;
// and peers that announce what they do not have: nothing outside of what they announced is touched.
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"
#include "comm/group/block_layout.h"
#include "comm/group/call_identity.h"
#include "comm/node/heap.h"
#include "comm/node/make_group.h"
#include "message_case.h"
#include "rank_processes.h"
#include "rank_threads.h"

namespace weft::test::colliding_calls_test {
namespace {

struct Collision {
  Collective few;
  Collective many;
};

// Two of the calls that have one signature and counts as different as can be found; nothing if there are none.
class Search {
 public:
  void Add(const Collective& call) {
    const Key key{call.kind, call.dtype, call.op, call.count};
    const auto [known, added] = calls_.emplace(SignatureOf(IdentityOf(call), false), key);
    if (added) return;
    Collective other = call;
    other.kind = known->second.kind;
    other.dtype = known->second.dtype;
    other.op = known->second.op;
    other.count = known->second.count;
    const Collision pair{other.count < call.count ? other : call,
                         other.count < call.count ? call : other};
    if (!found_ || Distance(pair) > Distance(*found_)) found_ = pair;
  }

  const std::optional<Collision>& found() const { return found_; }

 private:
  // In what calls of one search differ: hundreds of thousands are kept.
  struct Key {
    OpKind kind;
    weft_dtype_t dtype;
    weft_op_t op;
    size_t count;
  };

  static size_t Distance(const Collision& pair) { return pair.many.count - pair.few.count; }

  std::unordered_map<uint32_t, Key> calls_;
  std::optional<Collision> found_;
};

// Of one kind and type, larger than a slot.
Collision LargeCollision(OpKind kind, Protocol algorithm) {
  static std::map<std::pair<OpKind, Protocol>, std::optional<Collision>> known;
  std::optional<Collision>& found = known[{kind, algorithm}];
  if (!found) {
    Search search;
    for (size_t count = 3000; count < 200'000; ++count) {
      search.Add({.kind = kind, .dtype = WEFT_FLOAT32, .count = count, .algorithm = algorithm});
    }
    found = search.found();
  }
  EXPECT_TRUE(found.has_value());
  return found.value_or(Collision{});
}

// Both fit a slot, and not a line.
Collision SlotCollision() {
  Search search;
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kBroadcast}) {
    for (const weft_dtype_t dtype : kDtypes) {
      for (const weft_op_t op : {WEFT_SUM, WEFT_MAX, WEFT_MIN, WEFT_PROD}) {
        for (size_t count = 49; count * DtypeSize(dtype) <= 4096; ++count) {
          if (kind != OpKind::kAllReduce && op != WEFT_SUM) continue;
          search.Add({.kind = kind, .dtype = dtype, .op = op, .count = count});
        }
      }
    }
  }
  EXPECT_TRUE(search.found().has_value());
  return search.found().value_or(Collision{});
}

// Memory for a call's in and out, and a canary behind each.
class GuardedBuffers {
 public:
  GuardedBuffers(const Collective& call, int size, bool heap) {
    for (const size_t bytes : {InputBytes(call, size), OutputBytes(call, size)}) {
      const size_t whole = bytes + kCanaryBytes;
      if (heap) {
        heap_.push_back(static_cast<char*>(*ProcessHeap().Allocate(whole)));
      } else {
        own_.push_back(std::make_unique<char[]>(whole));
      }
      parts_.push_back({heap ? heap_.back() : own_.back().get(), whole});
      std::memset(parts_.back().memory, kPattern, whole);
    }
  }

  GuardedBuffers(const GuardedBuffers&) = delete;
  GuardedBuffers& operator=(const GuardedBuffers&) = delete;

  ~GuardedBuffers() {
    for (char* const block : heap_)
      (void)ProcessHeap().Free(block);
  }

  char* in() const { return parts_[0].memory; }

  char* out() const { return parts_[1].memory; }

  // Neither the output nor anything behind the buffers has been written.
  bool untouched() const {
    return std::all_of(parts_.begin(), parts_.end(), [](const Part& part) {
      return std::all_of(part.memory, part.memory + part.bytes,
                         [](char byte) { return byte == kPattern; });
    });
  }

 private:
  static constexpr size_t kCanaryBytes = 1 << 20;
  static constexpr char kPattern = 0x5a;

  struct Part {
    char* memory;
    size_t bytes;
  };

  std::vector<char*> heap_;
  std::vector<std::unique_ptr<char[]>> own_;
  std::vector<Part> parts_;
};

// The last rank makes the second call, all others the first one.
std::string CallDifferently(ProcessGroup& group, const Collision& calls, bool heap,
                            bool asynchronous) {
  Collective call = group.rank() == group.size() - 1 ? calls.many : calls.few;
  const GuardedBuffers buffers(call, group.size(), heap);
  if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "the barrier failed";
  call.in = buffers.in();
  call.out = buffers.out();
  absl::Status status;
  if (asynchronous) {
    auto work = group.Start(call);
    status = work.ok() ? (*work)->Wait(0) : work.status();
  } else {
    status = group.Run(call);
  }
  std::string text(status.message());
  if (ResultOf(status) != WEFT_MISMATCH) return "got: " + text;
  for (const Collective& each : {calls.few, calls.many}) {
    if (text.find(std::to_string(each.count)) == std::string::npos) return text;
  }
  // Memory of a rank's is its own again when its call has returned, on all ranks.
  return buffers.untouched() ? "" : "memory was written";
}

class CollidingCalls : public testing::TestWithParam<int> {
 protected:
  static void Try(const Collision& calls, bool heap) {
    for (const bool asynchronous : {false, true}) {
      EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "c", .timeout_ns = 30'000'000'000},
                               [&](ProcessGroup& group) {
                                 return CallDifferently(group, calls, heap, asynchronous);
                               }),
                "");
    }
  }
};

TEST_P(CollidingCalls, OnSymmetricMemoryAreFound) {
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kAllGather})
    Try(LargeCollision(kind, Protocol::kAuto), true);
}

TEST_P(CollidingCalls, ThatAreStagedAreFound) {
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter})
    Try(LargeCollision(kind, Protocol::kStaged), false);
}

TEST_P(CollidingCalls, ByTheKernelAreFound) {
  for (const OpKind kind : {OpKind::kBroadcast, OpKind::kAllGather})
    Try(LargeCollision(kind, Protocol::kSingleCopy), false);
}

TEST_P(CollidingCalls, InSlotsAreFound) {
  Try(SlotCollision(), false);
}

INSTANTIATE_TEST_SUITE_P(RankSet, CollidingCalls, testing::Values(2, 3, 5));

TEST(CollidingCallsOfProcesses, AreFound) {
  const Collision calls = LargeCollision(OpKind::kAllReduce, Protocol::kAuto);
  for (const bool heap : {true, false}) {
    RunProcessRanks(
        3, [&](ProcessGroup& group) { return CallDifferently(group, calls, heap, false); });
  }
}

// A rank of a group of two, and a peer of which a test writes what a rank would.
class ScriptedPeer {
 public:
  ScriptedPeer() {
    self_ = *NodePeer::Self();
    offset_ = *MakeSegment(2, kGroupId, 1);
    segment_ = Segment(self_->base() + offset_, 2);
    NodeState state;
    state.rank = 0;
    state.size = 2;
    state.peers = {self_, self_};
    group_ = *JoinSegment(std::move(state), offset_, kGroupId,
                          {.name = "s", .timeout_ns = 20'000'000'000});
    peer().state.store(RankState::kJoined);
  }

  ScriptedPeer(const ScriptedPeer&) = delete;
  ScriptedPeer& operator=(const ScriptedPeer&) = delete;

  ~ScriptedPeer() {
    peer().state.store(RankState::kLeft);
    group_->Close();
  }

  RankControl& peer() const { return segment_.control(1); }

  char* slot() const { return segment_.slot(1, 0); }

  uint64_t OffsetOf(const void* memory) const {
    return static_cast<uint64_t>(static_cast<const char*>(memory) - self_->base());
  }

  // The peer arrives for the group's first operation, with buffers in the heap, and says that it has finished it.
  void Arrive(const Collective& call, const BufferPlaces& places, uint8_t owner = 1) const {
    Arrival& line = peer().arrivals[1];
    line.signature = SignatureOf(IdentityOf(call), false);
    line.epoch = 1;
    line.done = 0;
    line.told = {.identity = IdentityOf(call),
                 .in_kind = MemoryKind::kHeap,
                 .out_kind = MemoryKind::kHeap,
                 .rounds_staged = 0,
                 .reads_peers = 0,
                 .in_owner = owner,
                 .out_owner = owner};
    peer().places[1] = places;
    peer().reduced.store(1);
    peer().done.store(1);
    line.sequence.store(1);
  }

  absl::Status Run(const Collective& call) const { return group_->Run(call); }

 private:
  static constexpr uint64_t kGroupId = 4711;

  std::shared_ptr<NodePeer> self_;
  uint64_t offset_ = 0;
  Segment segment_;
  std::shared_ptr<ProcessGroup> group_;
};

constexpr size_t kCount = 8192;  // float32, in a large operation
constexpr size_t kBytes = kCount * sizeof(float);

// What the peer says of its buffers, changed by `change`; the answer, and whether memory behind what it announced was
// written.
absl::Status ReduceWith(const std::function<void(BufferPlaces&)>& change, uint8_t owner,
                        bool* written_beyond) {
  const ScriptedPeer script;
  Collective call{.kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .count = kCount};
  const GuardedBuffers own(call, 2, true), peers(call, 2, true);
  call.in = own.in();
  call.out = own.out();
  BufferPlaces places{.in_offset = script.OffsetOf(peers.in()),
                      .in_bytes = kBytes,
                      .out_offset = script.OffsetOf(peers.out()),
                      .out_bytes = kBytes,
                      .out_heap = 0};
  change(places);
  script.Arrive(call, places, owner);
  absl::Status status = script.Run(call);
  *written_beyond = !peers.untouched();
  return status;
}

TEST(AnnouncedPlaces, ThatHoldWhatIsNeededAreUsed) {
  bool written = false;
  EXPECT_EQ(ReduceWith([](BufferPlaces&) {}, 1, &written), absl::OkStatus());
  EXPECT_TRUE(written);
}

TEST(AnnouncedPlaces, AreNeverLeft) {
  const std::pair<const char*, std::function<void(BufferPlaces&)>> changes[] = {
      {"a short output",
       [](BufferPlaces& p) {
         p.out_bytes = kBytes / 2 - sizeof(float);
       }},
      {"a short input",
       [](BufferPlaces& p) {
         p.in_bytes = kBytes / 2 - 1;
       }},
      {"no input",
       [](BufferPlaces& p) {
         p.in_bytes = 0;
       }},
      {"an output outside the heap",
       [](BufferPlaces& p) {
         p.out_offset = uint64_t{1} << 50;
       }},
      {"an output at the end of all numbers",
       [](BufferPlaces& p) {
         p.out_offset = UINT64_MAX - 64;
       }},
      {"an input larger than memory",
       [](BufferPlaces& p) {
         p.in_offset = p.in_bytes = UINT64_MAX;
       }},
  };
  for (const auto& [what, change] : changes) {
    SCOPED_TRACE(what);
    bool written = false;
    const absl::Status status = ReduceWith(change, 1, &written);
    EXPECT_EQ(ResultOf(status), WEFT_CORRUPT) << status;
    EXPECT_NE(Text(status).find("rank 1 announced"), std::string::npos) << status;
    EXPECT_FALSE(written);
  }
}

TEST(AnnouncedPlaces, AreInAHeapOfTheGroup) {
  bool written = false;
  const absl::Status status = ReduceWith([](BufferPlaces&) {}, 77, &written);
  EXPECT_EQ(ResultOf(status), WEFT_CORRUPT) << status;
  EXPECT_FALSE(written);
}

// A row says where in the peer's buffer the block lies that is for this rank.
TEST(AnnouncedPlaces, AreNeverLeftByRows) {
  for (const uint64_t begin : {uint64_t{0}, uint64_t{1}, uint64_t{kCount}, UINT64_MAX / 4}) {
    SCOPED_TRACE(testing::Message() << "from element " << begin);
    const ScriptedPeer script;
    Collective call{.kind = OpKind::kAllToAllV, .dtype = WEFT_FLOAT32, .root = 0, .count = 0};
    const std::vector<size_t> counts{0, kCount};
    auto layout = std::make_shared<BlockLayout>();
    ASSERT_TRUE(
        LayOutBlocks({counts.data(), nullptr}, {counts.data(), nullptr}, 0, 2, layout.get(), &call)
            .ok());
    call.layout = layout;
    const GuardedBuffers own(call, 2, true);
    GuardedBuffers peers(call, 2, true);
    std::memset(peers.in(), 1, kBytes);
    call.in = own.in();
    call.out = own.out();
    // As count_exchange.cc has them: no data behind, then per rank what is sent, from where, and what is expected.
    const uint64_t row[] = {0, kCount, begin, kCount, 0, 0, 0};
    std::memcpy(script.slot(), row, sizeof(row));
    script.Arrive(call, {.in_offset = script.OffsetOf(peers.in()),
                         .in_bytes = kBytes,
                         .out_offset = script.OffsetOf(peers.out()),
                         .out_bytes = kBytes,
                         .out_heap = 0});
    const absl::Status status = script.Run(call);
    EXPECT_EQ(ResultOf(status), begin == 0 ? WEFT_SUCCESS : WEFT_CORRUPT) << status;
    if (begin > 0) {
      EXPECT_TRUE(own.untouched());
    }
  }
}

}  // namespace
}  // namespace weft::test::colliding_calls_test
