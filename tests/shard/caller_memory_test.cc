// A context in the caller's memory: the same bits, everything released once, every failure named and told to the
// other ranks.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "comm/node/heap.h"
#include "gmock/gmock.h"
#include "tests/shard/ranks.h"
#include "tests/shard/trained_model.h"

namespace weft::caller_memory_test {
namespace {

using testing::HasSubstr;

// One rank's memory. Gives what was never zero, and fails when told to.
class Arena {
 public:
  Arena() : thread_(std::this_thread::get_id()) {}

  BlockSource Source() {
    return {.allocator = {sizeof(weft_shard_allocator_t), Allocate, Release, this}};
  }

  // The allocation with this number, from 1, fails; 0: none.
  int failing = 0;
  // It is not NULL but misaligned.
  bool misaligns = false;

  int asked() const { return static_cast<int>(tiers_.size()); }

  size_t live() const { return live_.size(); }

  // In the order in which it was asked.
  const std::vector<weft_shard_tier_t>& tiers() const { return tiers_; }

  size_t bytes(weft_shard_tier_t tier) const {
    size_t bytes = 0;
    for (const auto& [memory, block] : live_)
      bytes += block.tier == tier ? block.bytes : 0;
    return bytes;
  }

 private:
  struct Block {
    size_t bytes;
    weft_shard_tier_t tier;
    void* whole;
  };

  static void* Allocate(size_t bytes, size_t alignment, weft_shard_tier_t tier, void* user) {
    return static_cast<Arena*>(user)->Give(bytes, alignment, tier);
  }

  static void Release(void* memory, size_t bytes, weft_shard_tier_t tier, void* user) {
    static_cast<Arena*>(user)->Take(memory, bytes, tier);
  }

  void* Give(size_t bytes, size_t alignment, weft_shard_tier_t tier) {
    EXPECT_EQ(std::this_thread::get_id(), thread_);
    EXPECT_GT(bytes, 0u);
    tiers_.push_back(tier);
    const bool fails = asked() == failing;
    if (fails && !misaligns) return nullptr;
    const size_t whole_bytes = (bytes + 2 * alignment) / alignment * alignment;
    void* const whole = std::aligned_alloc(alignment, whole_bytes);
    std::memset(whole, 0x5a, whole_bytes);
    void* const memory = static_cast<char*>(whole) + (fails ? 8 : 0);
    live_[memory] = {bytes, tier, whole};
    return memory;
  }

  void Take(void* memory, size_t bytes, weft_shard_tier_t tier) {
    EXPECT_EQ(std::this_thread::get_id(), thread_);
    const auto found = live_.find(memory);
    ASSERT_NE(found, live_.end()) << "released twice, or not from here";
    EXPECT_EQ(found->second.bytes, bytes);
    EXPECT_EQ(found->second.tier, tier);
    std::free(found->second.whole);
    live_.erase(found);
  }

  const std::thread::id thread_;
  std::vector<weft_shard_tier_t> tiers_;
  std::map<void*, Block> live_;
};

const std::vector<int64_t> kCounts = {640, 1031, 3, 512, 900, 700};

struct Options {
  weft_shard_preset_t preset = WEFT_SHARD_FULL_SHARD;
  int ranks = 2;
  bool reduces_every = false;
  weft_shard_views_t views = WEFT_SHARD_VIEWS_MOVE;
};

absl::Status MakeModel(TrainedModel& model, std::shared_ptr<ProcessGroup> group,
                       const BlockSource& source, bool reduces_every = false,
                       weft_shard_views_t views = WEFT_SHARD_VIEWS_MOVE) {
  WEFT_ASSIGN_OR_RETURN(auto mesh, Mesh::Create(std::move(group), {}));
  return model.Make(
      mesh, {.accumulation = reduces_every ? WEFT_SHARD_REDUCE_EVERY : WEFT_SHARD_LOCAL_THEN_REDUCE,
             .microbatches = reduces_every ? 2 : 1,
             .views = views,
             .memory = source});
}

// Trains a while, also in an order that was not expected, which needs memory beyond the pool.
std::vector<float> Train(const Options& options, bool own_heap) {
  std::vector<float> result;
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, options.ranks,
      [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        Arena arena;
        {
          TrainedModel model({.preset = options.preset,
                              .counts = kCounts,
                              .microbatches = options.reduces_every ? 2 : 1});
          WEFT_RETURN_IF_ERROR(MakeModel(model, std::move(group),
                                         own_heap ? BlockSource() : arena.Source(),
                                         options.reduces_every, options.views));
          if (!own_heap) {
            EXPECT_EQ(arena.bytes(WEFT_SHARD_TIER_PARAMS), model.plan().param_bytes);
            EXPECT_EQ(arena.bytes(WEFT_SHARD_TIER_GRADIENTS), model.plan().grad_bytes);
            EXPECT_EQ(arena.bytes(WEFT_SHARD_TIER_OPTIMIZER), model.plan().optimizer_bytes);
            EXPECT_EQ(arena.bytes(WEFT_SHARD_TIER_POOL), model.plan().pool_bytes);
          }
          for (int step = 0; step < 3; ++step)
            WEFT_RETURN_IF_ERROR(model.Step());
          std::swap(model.order[0], model.order[2]);
          for (int step = 0; step < 3; ++step)
            WEFT_RETURN_IF_ERROR(model.Step());
          WEFT_ASSIGN_OR_RETURN(auto weights, model.Read());
          if (rank == 0) result = std::move(weights);
        }
        EXPECT_EQ(arena.live(), 0u) << "after the context was destroyed";
        EXPECT_EQ(arena.asked() == 0, own_heap);
        return absl::OkStatus();
      }));
  return result;
}

TEST(CallerMemory, GivesTheSameBitsAsTheHeap) {
  for (const weft_shard_preset_t preset :
       {WEFT_SHARD_NO_SHARD, WEFT_SHARD_ZERO1, WEFT_SHARD_ZERO2, WEFT_SHARD_FULL_SHARD}) {
    for (const int ranks : {1, 2, 3}) {
      for (const bool reduces_every : {false, true}) {
        SCOPED_TRACE(StrCat("preset ", preset, ", ", ranks, " ranks, ", reduces_every));
        const auto views = static_cast<weft_shard_views_t>(ranks % 3);
        const Options options{preset, ranks, reduces_every, views};
        const std::vector<float> heap = Train(options, /*own_heap=*/true);
        const std::vector<float> callers = Train(options, /*own_heap=*/false);
        ASSERT_EQ(heap.size(), 3786u);
        ASSERT_EQ(callers.size(), heap.size());
        EXPECT_EQ(std::memcmp(heap.data(), callers.data(), heap.size() * sizeof(float)), 0);
      }
    }
  }
}

TEST(CallerMemory, IsAskedForInOneOrder) {
  using Tiers = std::vector<weft_shard_tier_t>;
  const auto asked = [](weft_shard_preset_t preset, bool reduces_every) {
    Tiers tiers;
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          Arena arena;
          TrainedModel model({.preset = preset, .counts = {640}});
          WEFT_RETURN_IF_ERROR(MakeModel(model, std::move(group), arena.Source(), reduces_every));
          if (rank == 0) tiers = arena.tiers();
          return absl::OkStatus();
        }));
    return tiers;
  };
  constexpr auto kParams = WEFT_SHARD_TIER_PARAMS;
  constexpr auto kGradients = WEFT_SHARD_TIER_GRADIENTS;
  constexpr auto kOptimizer = WEFT_SHARD_TIER_OPTIMIZER;
  constexpr auto kPool = WEFT_SHARD_TIER_POOL;
  EXPECT_EQ(asked(WEFT_SHARD_NO_SHARD, false),
            Tiers({kParams, kGradients, kOptimizer, kOptimizer}));
  EXPECT_EQ(asked(WEFT_SHARD_FULL_SHARD, true),
            Tiers({kParams, kGradients, kGradients, kOptimizer, kOptimizer, kPool}));
}

constexpr int kVictim = 1;

// How often the victim asks for memory in finalize.
int CountAsked(const Options& options) {
  int asked = 0;
  ExpectAllOk(RunRanks(GroupKind::kLocal, options.ranks,
                       [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                         Arena arena;
                         TrainedModel model({.preset = options.preset, .counts = kCounts});
                         WEFT_RETURN_IF_ERROR(MakeModel(model, std::move(group), arena.Source(),
                                                        options.reduces_every, options.views));
                         if (rank == kVictim) asked = arena.asked();
                         return absl::OkStatus();
                       }));
  return asked;
}

void FailTheOne(const Options& options, int failing, bool misaligns) {
  std::string tier;
  const std::vector<absl::Status> statuses =
      RunRanks(GroupKind::kLocal, options.ranks,
               [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                 Arena arena;
                 if (rank == kVictim) arena.failing = failing;
                 arena.misaligns = misaligns;
                 TrainedModel model({.preset = options.preset, .counts = kCounts});
                 absl::Status status = MakeModel(model, std::move(group), arena.Source(),
                                                 options.reduces_every, options.views);
                 EXPECT_EQ(arena.live(), 0u) << "finalize failed";
                 if (rank == kVictim) tier = TierName(arena.tiers().back());
                 return status;
               });
  for (int rank = 0; rank < options.ranks; ++rank) {
    const absl::Status& status = statuses[static_cast<size_t>(rank)];
    const std::string text(status.message());
    if (rank == kVictim) {
      EXPECT_EQ(ResultOf(status), WEFT_OUT_OF_MEMORY) << status;
      EXPECT_THAT(text, HasSubstr("bytes of tier " + tier));
      EXPECT_THAT(text, HasSubstr(misaligns ? "not a multiple of 64" : "gave NULL"));
    } else {
      EXPECT_EQ(ResultOf(status), WEFT_REMOTE_ERROR) << status;
      EXPECT_THAT(text, HasSubstr("rank 1 could not allocate"));
    }
  }
}

TEST(CallerMemory, MissingAnywhereInFinalizeIsNamedAndToldToTheOthers) {
  const size_t live_before = ProcessHeap().live_bytes();
  for (const Options& options :
       {Options{WEFT_SHARD_FULL_SHARD, 3, true}, Options{WEFT_SHARD_ZERO1, 2, false},
        Options{WEFT_SHARD_FULL_SHARD, 2, false, WEFT_SHARD_VIEWS_STABLE}}) {
    const int count = CountAsked(options);
    EXPECT_GE(count, 4);
    for (int failing = 1; failing <= count; ++failing) {
      for (const bool misaligns : {false, true}) {
        SCOPED_TRACE(StrCat("preset ", options.preset, ", block ", failing, " of ", count,
                            misaligns ? " misaligned" : " missing"));
        FailTheOne(options, failing, misaligns);
      }
    }
  }
  EXPECT_EQ(ProcessHeap().live_bytes(), live_before);
}

TEST(CallerMemory, ThatThrowsIsNamedAndToldToTheOthers) {
  const std::vector<absl::Status> statuses = RunRanks(
      GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        Arena arena;
        BlockSource source = arena.Source();
        if (rank == kVictim) {
          source.allocator.allocate = [](size_t, size_t, weft_shard_tier_t, void*) -> void* {
            throw std::bad_alloc();
          };
        }
        TrainedModel model({.preset = WEFT_SHARD_FULL_SHARD, .counts = kCounts});
        return MakeModel(model, std::move(group), source);
      });
  EXPECT_EQ(ResultOf(statuses[kVictim]), WEFT_OUT_OF_MEMORY) << statuses[kVictim];
  EXPECT_EQ(ResultOf(statuses[0]), WEFT_REMOTE_ERROR) << statuses[0];
}

// A rank without memory for a place outside of the pool says so; abort_step releases the others.
TEST(CallerMemory, MissingInAStepIsNamed) {
  const std::vector<absl::Status> statuses = RunRanks(
      GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        Arena arena;
        absl::Status status;
        {
          TrainedModel model({.preset = WEFT_SHARD_FULL_SHARD, .counts = kCounts});
          WEFT_RETURN_IF_ERROR(MakeModel(model, std::move(group), arena.Source()));
          if (rank == 1) arena.failing = arena.asked() + 1;
          // All at once: more than the pool has.
          Context& context = model.context();
          WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_TRAIN, 0));
          WEFT_RETURN_IF_ERROR(context.MicrobatchBegin(0, true));
          for (int unit = 5; status.ok() && unit >= 0; --unit)
            status = context.PreForward(unit);
          if (rank == 0 && status.ok()) status = context.Finish().status();
          if (ResultOf(status) == WEFT_OUT_OF_MEMORY) {
            EXPECT_TRUE(context.AbortStep(FromAbsl(status.message())).ok());
          }
        }
        EXPECT_EQ(arena.live(), 0u);
        return status;
      });
  EXPECT_EQ(ResultOf(statuses[1]), WEFT_OUT_OF_MEMORY) << statuses[1];
  EXPECT_THAT(std::string(statuses[1].message()), HasSubstr("bytes of tier pool"));
  EXPECT_EQ(ResultOf(statuses[0]), WEFT_ABORTED) << statuses[0];
  EXPECT_THAT(std::string(statuses[0].message()), HasSubstr("bytes of tier pool"));
}

// Recorded orders that need a larger pool, which one rank has no memory for at first: all ranks go on, on demand,
// and later agree on the larger one.
TEST(CallerMemory, MissingForALargerPoolIsAgreedOn) {
  std::vector<int> replayed[2];
  ExpectAllOk(RunRanks(GroupKind::kLocal, 2,
                       [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                         Arena arena;
                         {
                           TrainedModel model({.preset = WEFT_SHARD_FULL_SHARD, .counts = kCounts});
                           WEFT_RETURN_IF_ERROR(MakeModel(model, std::move(group), arena.Source()));
                           Context& context = model.context();
                           const size_t pool_bytes = context.pool_bytes();
                           bool failed = false;
                           // Forward of all units at once; so all have to be whole at once.
                           for (int step = 0; step < 4; ++step) {
                             WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_EVAL, 0));
                             WEFT_RETURN_IF_ERROR(context.MicrobatchBegin(0, true));
                             for (int unit = 0; unit < 6; ++unit)
                               WEFT_RETURN_IF_ERROR(context.PreForward(unit));
                             for (int unit = 0; unit < 6; ++unit)
                               WEFT_RETURN_IF_ERROR(context.PostForward(unit));
                             WEFT_RETURN_IF_ERROR(context.MicrobatchEnd());
                             if (step == 0 && rank == 1) arena.failing = arena.asked() + 1;
                             WEFT_ASSIGN_OR_RETURN(const auto result, context.Finish());
                             WEFT_RETURN_IF_ERROR(context.StepEnd());
                             failed = failed || arena.asked() == arena.failing;
                             replayed[rank].push_back(result.replayed);
                           }
                           EXPECT_EQ(failed, rank == 1);
                           EXPECT_GT(context.pool_bytes(), pool_bytes);
                         }
                         EXPECT_EQ(arena.live(), 0u);
                         return absl::OkStatus();
                       }));
  EXPECT_EQ(replayed[0], std::vector<int>({0, 0, 1, 1}));
  EXPECT_EQ(replayed[1], replayed[0]);
}

}  // namespace
}  // namespace weft::caller_memory_test
