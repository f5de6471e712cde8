// Presets that gather, when things go wrong: aborts and destruction while operations are under way, illegal calls,
// and memory over many steps.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "base/status.h"
#include "base/wait.h"
#include "comm/node/heap.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/shard/exact_model.h"
#include "tests/shard/ranks.h"

namespace weft::preset_failure_test {
namespace {

using testing::HasSubstr;

constexpr int kSteps = kSampled ? 30 : 300;
constexpr size_t kEveryNth = kSampled ? 3 : 1;

constexpr size_t kUnits = 4;

constexpr weft_shard_preset_t kCutPresets[] = {WEFT_SHARD_ZERO1, WEFT_SHARD_ZERO2,
                                               WEFT_SHARD_GRAD_OP, WEFT_SHARD_FULL_SHARD};

const Script& Declared() {
  static const Script script = ScriptOf({0, 1, 2, 3}, {3, 2, 1, 0});
  return script;
}

ContextOptions Sums() {
  return {.limits = {.bucket_bytes = 1024, .first_bucket_bytes = 1024}, .average = false};
}

// The calls of `script` up to number `calls`, gradients included where backward gets that far.
absl::Status RunUpTo(Context& context, const Script& script, size_t calls) {
  WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_TRAIN, 0));
  for (size_t i = 0; i < calls; ++i) {
    const int index = script[i].index;
    switch (script[i].kind) {
      case Event::Kind::kMicrobatchBegin:
        WEFT_RETURN_IF_ERROR(context.MicrobatchBegin(0, true));
        break;
      case Event::Kind::kPreForward:
        WEFT_RETURN_IF_ERROR(context.PreForward(index));
        break;
      case Event::Kind::kPostForward:
        WEFT_RETURN_IF_ERROR(context.PostForward(index));
        break;
      case Event::Kind::kPreBackward:
        WEFT_RETURN_IF_ERROR(context.PreBackward(index));
        WEFT_RETURN_IF_ERROR(context.GradReady(index, nullptr));
        break;
      case Event::Kind::kPostBackward:
        WEFT_RETURN_IF_ERROR(context.PostBackward(index));
        break;
      case Event::Kind::kMicrobatchEnd:
        WEFT_RETURN_IF_ERROR(context.MicrobatchEnd());
        break;
      case Event::Kind::kUnshard:
        WEFT_RETURN_IF_ERROR(context.UnshardStart(index));
        break;
      case Event::Kind::kReshard:
        WEFT_RETURN_IF_ERROR(context.UnshardWait(index));
        WEFT_RETURN_IF_ERROR(context.Reshard(index));
        break;
      default:
        return context.Finish().status();
    }
  }
  return absl::OkStatus();
}

TEST(AbortStep, ReleasesRanksThatWaitForParamsOrGradients) {
  for (const GroupKind kind : kGroupKinds) {
    for (const weft_shard_preset_t preset : kCutPresets) {
      for (size_t calls = 1; calls < Declared().size(); calls += 4 * kEveryNth) {
        SCOPED_TRACE(std::string(GroupKindName(kind)) + " " + PresetName(preset) + " after " +
                     std::to_string(calls));
        std::atomic<int64_t> aborted_ns = 0;
        const std::vector<absl::Status> statuses =
            RunRanks(kind, 3, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
              WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, Sums()));
              ExactModel model(*context, ExactUnits(kUnits, preset), rank, 3);
              WEFT_RETURN_IF_ERROR(model.Finalize().status());
              WEFT_RETURN_IF_ERROR(model.Train(Declared()).status());
              if (rank != 1) {
                const absl::Status status = RunUpTo(*context, Declared(), Declared().size());
                // The deadline is 60 s; a busy machine may be slow, so no second is counted here.
                EXPECT_LT(MonotonicNs() - aborted_ns.load(), int64_t{20'000'000'000});
                EXPECT_EQ(ResultOf(context->StepEnd()), ResultOf(status));
                return status;
              }
              WEFT_RETURN_IF_ERROR(RunUpTo(*context, Declared(), calls));
              std::this_thread::sleep_for(std::chrono::milliseconds(2));
              aborted_ns = MonotonicNs();
              WEFT_RETURN_IF_ERROR(context->AbortStep("sample 9 is torn"));
              return context->MicrobatchEnd();
            });
        for (const absl::Status& status : statuses) {
          EXPECT_EQ(ResultOf(status), WEFT_ABORTED) << status;
          EXPECT_THAT(std::string(status.message()), HasSubstr("sample 9 is torn"));
        }
        EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
      }
    }
  }
}

TEST(Destroy, EndsGathersAndReductionsUnderWay) {
  for (const GroupKind kind : kGroupKinds) {
    for (const weft_shard_preset_t preset : kCutPresets) {
      for (size_t calls = 1; calls + 1 < Declared().size(); calls += 2 * kEveryNth) {
        SCOPED_TRACE(std::string(GroupKindName(kind)) + " " + PresetName(preset) + " after " +
                     std::to_string(calls));
        const std::vector<absl::Status> statuses =
            RunRanks(kind, 3, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
              WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, Sums()));
              ExactModel model(*context, ExactUnits(kUnits, preset), rank, 3);
              WEFT_RETURN_IF_ERROR(model.Finalize().status());
              const absl::Status status = RunUpTo(*context, Declared(), calls);
              // Others have not started everything, or have ended nothing, or are gone.
              if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
              return status;
            });
        // Who is still at work when another one leaves may hear of that.
        for (const absl::Status& status : statuses) {
          EXPECT_THAT(ResultOf(status), testing::AnyOf(WEFT_SUCCESS, WEFT_ABORTED)) << status;
        }
        EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
      }
    }
  }
}

TEST(Destroy, AfterTheLastUpdateLeavesTheGroupUsable) {
  for (const GroupKind kind : kGroupKinds) {
    for (const weft_shard_preset_t preset : kCutPresets) {
      SCOPED_TRACE(std::string(GroupKindName(kind)) + " " + PresetName(preset));
      ExpectAllOk(
          RunRanks(kind, 3, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
            WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, Sums()));
            ExactModel model(*context, ExactUnits(kUnits, preset), rank, 3);
            WEFT_RETURN_IF_ERROR(model.Finalize().status());
            // Others are late with their updates, and with destroying.
            model.pause = [rank] {
              if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            };
            for (int step = 0; step < 2; ++step)
              WEFT_RETURN_IF_ERROR(model.Train(Declared()).status());
            if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(3));
            context.reset();
            return group->Run({.kind = OpKind::kBarrier});
          }));
      EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
    }
  }
}

TEST(IllegalCalls, NameUnitAndPhaseAndLeaveTheContextUsable) {
  for (const weft_shard_preset_t preset : kCutPresets) {
    SCOPED_TRACE(PresetName(preset));
    const Placement placement = PlacementOf(preset);
    // Only rank 1 makes them: had they sent anything, ranks would no longer match.
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, Sums()));
          ExactModel model(*context, ExactUnits(kUnits, preset), rank, 2);
          WEFT_RETURN_IF_ERROR(model.Finalize().status());
          const std::vector<float> values(200);
          const auto refused = [](const absl::Status& status, const char* what) {
            EXPECT_EQ(ResultOf(status), WEFT_BAD_STATE) << status;
            EXPECT_THAT(std::string(status.message()), HasSubstr(what));
            EXPECT_THAT(std::string(status.message()), HasSubstr("last events"));
          };
          const auto mistakes = [&](const char* phase) {
            if (rank == 0) return;
            const absl::StatusOr<ParamView> view = context->View(2);
            EXPECT_EQ(view.ok(), !placement.params_sharded);
            if (!view.ok()) {
              refused(view.status(), "unit unit2");
              refused(view.status(), phase);
            } else if (placement.gradients_sharded) {
              EXPECT_EQ(view->grad, nullptr) << "outside of backward";
            }
            refused(context->GradReady(2, values.data()), "unit2.2");
            refused(context->PostForward(2), "post_forward unit2");
          };
          const auto in_step = [&] {
            if (rank == 0) return;
            std::vector<float> room(200);
            refused(context->Load(2, values.data(), Context::kEveryRank), "param_load");
            refused(context->Load(2, values.data(), 1), "param_load");
            refused(context->Read(2, room.data()), "param_read");
            refused(context->Updated(), "params_updated");
            refused(context->StepEnd(), "step_end");
          };
          for (int step = 0; step < 2; ++step) {
            model.pause = nullptr;
            mistakes("is not in use");
            int calls = 0;
            model.pause = [&] {
              // Unit 2 is used by the calls 6, 7 and, with gradients, 14 to 16.
              ++calls;
              if (calls == 3) mistakes("was not used in this micro-batch");
              if (calls == 3 || calls == 12) in_step();
            };
            WEFT_RETURN_IF_ERROR(model.Train(Declared()).status());
          }
          model.pause = nullptr;
          WEFT_ASSIGN_OR_RETURN(const auto result, model.Train(Declared()));
          EXPECT_EQ(result.replayed, 1);
          return model.ExpectWeights();
        }));
  }
}

TEST(Load, RefusesARootThatIsNoneAndValuesThatDiffer) {
  const std::vector<absl::Status> statuses = RunRanks(
      GroupKind::kLocal, 3, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, Sums()));
        ExactModel model(*context, ExactUnits(kUnits, WEFT_SHARD_FULL_SHARD), rank, 3);
        WEFT_RETURN_IF_ERROR(model.Finalize().status());
        std::vector<float> values(200, 1.0f);
        for (const int root : {-2, 3})
          EXPECT_EQ(ResultOf(context->Load(1, values.data(), root)), WEFT_INVALID_ARGUMENT);
        if (rank == 2) values[199] = 2;
        const absl::Status differs = context->Load(1, values.data(), Context::kEveryRank);
        EXPECT_THAT(std::string(differs.message()), HasSubstr("unit1.1: rank 2 has other values"));
        EXPECT_EQ(ResultOf(differs), WEFT_MISMATCH);
        WEFT_RETURN_IF_ERROR(context->Load(1, values.data(), 2));
        std::vector<float> all(200);
        WEFT_RETURN_IF_ERROR(context->Read(1, all.data()));
        EXPECT_EQ(all[0], 1);
        EXPECT_EQ(all[199], 2);
        return absl::OkStatus();
      });
  ExpectAllOk(statuses);
}

TEST(Memory, StaysTheSameOverManySteps) {
  for (const GroupKind kind : {GroupKind::kLocal, GroupKind::kReference}) {
    for (const weft_shard_preset_t preset : kCutPresets) {
      SCOPED_TRACE(PresetName(preset));
      std::vector<size_t> bytes;  // rank 0's thread writes
      ExpectAllOk(
          RunRanks(kind, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
            WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, Sums()));
            ExactModel model(*context, ExactUnits(kUnits, preset), rank, 2);
            WEFT_RETURN_IF_ERROR(model.Finalize().status());
            const Script other = ScriptOf(Shuffled(kUnits, 1), Shuffled(kUnits, 2));
            const Script third = ScriptOf(Shuffled(kUnits, 3), Shuffled(kUnits, 4), 2);
            for (int step = 0; step < kSteps; ++step) {
              const uint64_t tag = static_cast<uint64_t>(step) % 3;
              const Script& script = tag == 0 ? Declared() : tag == 1 ? other : third;
              WEFT_ASSIGN_OR_RETURN(const auto result, model.Train(script, tag));
              if (result.replayed == 1) {
                EXPECT_EQ(context->spilled_bytes_max(), 0u);
              }
              WEFT_RETURN_IF_ERROR(group->Run({.kind = OpKind::kBarrier}));
              if (rank == 0 && step % 3 == 2) bytes.push_back(ProcessHeap().live_bytes());
              WEFT_RETURN_IF_ERROR(group->Run({.kind = OpKind::kBarrier}));
            }
            return model.ExpectWeights();
          }));
      EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
      for (size_t i = 2; i < bytes.size(); ++i)
        EXPECT_EQ(bytes[i], bytes[1]) << "round " << i;
    }
  }
}

TEST(Memory, OfTheFirstStepIsThatOfThePlan) {
  for (const weft_shard_preset_t preset : kCutPresets) {
    for (const int prefetch : {0, 1, 3}) {
      SCOPED_TRACE(PresetName(preset));
      ContextOptions options = Sums();
      options.prefetch = prefetch;
      ExpectAllOk(RunRanks(GroupKind::kLocal, 3,
                           [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                             WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, options));
                             ExactModel model(*context, ExactUnits(kUnits, preset), rank, 3);
                             WEFT_RETURN_IF_ERROR(model.Finalize().status());
                             const size_t planned = context->pool_bytes();
                             if (preset == WEFT_SHARD_FULL_SHARD && prefetch == 1) {
                               EXPECT_EQ(planned, 3 * 1024u) << "params, gradients and the next";
                             }
                             WEFT_RETURN_IF_ERROR(group->Run({.kind = OpKind::kBarrier}));
                             const size_t before = ProcessHeap().live_bytes();
                             WEFT_RETURN_IF_ERROR(group->Run({.kind = OpKind::kBarrier}));
                             for (int step = 0; step < 3; ++step) {
                               WEFT_RETURN_IF_ERROR(model.Train(Declared()).status());
                               EXPECT_EQ(context->spilled_bytes_max(), 0u);
                               EXPECT_EQ(context->pool_bytes(), planned);
                             }
                             WEFT_RETURN_IF_ERROR(group->Run({.kind = OpKind::kBarrier}));
                             EXPECT_EQ(ProcessHeap().live_bytes(), before);
                             return group->Run({.kind = OpKind::kBarrier});
                           }));
    }
  }
}

}  // namespace
}  // namespace weft::preset_failure_test
