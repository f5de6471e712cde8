// Whoever restores a checkpoint on one rank only, or an older one on another, trains on with other bits from there, and nothing
// fails. So the numbers travel with each update as one word, and by themselves when a restored state is announced.
#include "shard/context/state_scalars.h"

#include <array>
#include <bit>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "comm/group/number_hash.h"
#include "shard/checks/agreement.h"
#include "shard/checks/digest.h"
#include "shard/checks/rank_list.h"

namespace weft {
namespace {

// What is compared, as it travels. The first two only when a state was written.
constexpr std::array<const char*, 7> kScalarNames = {
    "kinds",           "train_steps_begun",     "update_count",
    "loss_scale",      "loss_scale_good_steps", "loss_scale_overflows_left",
    "nonfinite_steps",
};
using ScalarNumbers = std::array<double, kScalarNames.size()>;

ScalarNumbers ComparedNumbers(const weft_shard_state_scalars_t& scalars) {
  return {0,
          0,
          static_cast<double>(scalars.update_count),
          scalars.loss_scale,
          static_cast<double>(scalars.loss_scale_good_steps),
          static_cast<double>(scalars.loss_scale_overflows_left),
          static_cast<double>(scalars.nonfinite_steps)};
}

std::string DifferingText(const ScalarNumbers& numbers, const ScalarNumbers& other) {
  std::string text;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (std::bit_cast<uint64_t>(numbers[i]) == std::bit_cast<uint64_t>(other[i])) continue;
    text += StrCat(text.empty() ? "" : ", ", kScalarNames[i], " ", numbers[i]);
  }
  return text;
}

// MISMATCH unless all ranks have the same. `advice` says what to do.
absl::Status CompareNumbers(ContextCore& core, const char* call, const ScalarNumbers& own,
                            const CallPurpose& purpose, std::string_view advice) {
  ProcessGroup& group = core.group();
  const absl::StatusOr<std::vector<ScalarNumbers>> all =
      GatherValue(group, own, core.options().timeout_ns, purpose);
  if (!all.ok()) {
    return core.LatchUnlocked(Annotate(all.status(), StrCat(call, ", comparing scalars: ")));
  }
  std::vector<Digest> digests;
  for (const ScalarNumbers& numbers : *all)
    digests.push_back(DigestOf(&numbers, sizeof(numbers)));
  const Sides sides = SidesOf(digests);
  if (sides.size() < 2) return absl::OkStatus();
  // The last side has the fewest ranks.
  const std::vector<int>& outlier = sides.back();
  const ScalarNumbers& theirs = (*all)[static_cast<size_t>(outlier[0])];
  const ScalarNumbers& usual = (*all)[static_cast<size_t>(sides[0][0])];
  return MakeError(WEFT_MISMATCH, CulpritOf(group, outlier[0], call),
                   StrCat(call, " on group ", group.name(), ": ", DifferingText(theirs, usual),
                          " on ", RankList(outlier), ", ", DifferingText(usual, theirs), " on ",
                          RankList(sides[0]), advice));
}

// Counts are compared as doubles, and go on from here.
constexpr int64_t kCountMost = int64_t{1} << 53;

absl::Status CheckCount(const char* name, int64_t count) {
  if (count >= 0 && count <= kCountMost) return absl::OkStatus();
  return MakeError(WEFT_INVALID_ARGUMENT,
                   StrCat(name, " is ", count,
                          "; use what weft_shard_state_scalars_get gave, 0 or "
                          "more, at most 2^53"));
}

absl::Status CheckNoOptimizer(const weft_shard_state_scalars_t& scalars) {
  const bool none = scalars.update_count == 0 && scalars.loss_scale == 1 &&
                    scalars.loss_scale_good_steps == 0 && scalars.loss_scale_overflows_left == 0 &&
                    scalars.nonfinite_steps == 0;
  if (none) return absl::OkStatus();
  return MakeError(
      WEFT_INVALID_ARGUMENT,
      StrCat("update_count is ", scalars.update_count, ", loss_scale ", scalars.loss_scale,
             ", but the context has no optimizer; give it one with "
             "weft_shard_context_optimizer before finalize, or set loss_scale to 1 and "
             "the others to 0"));
}

}  // namespace

weft_shard_state_scalars_t ScalarsOf(ContextCore& core, const NonfiniteRun& nonfinite) {
  Runtime& runtime = core.runtime();
  weft_shard_state_scalars_t scalars{};
  scalars.struct_size = sizeof(scalars);
  scalars.steps_begun = runtime.state.step();
  scalars.train_steps_begun = core.purposes().step();
  scalars.loss_scale = 1;
  if (runtime.optimizer == nullptr) return scalars;
  const LossScale::State scale = runtime.optimizer->loss_scale().state();
  scalars.update_count = runtime.optimizer->update_count();
  scalars.loss_scale = scale.value;
  scalars.loss_scale_good_steps = scale.good_steps;
  scalars.loss_scale_overflows_left = scale.overflows_left;
  scalars.nonfinite_steps = nonfinite.steps();
  return scalars;
}

absl::Status SetScalars(ContextCore& core, const weft_shard_state_scalars_t& scalars,
                        NonfiniteRun& nonfinite) {
  for (const auto& [name, count] :
       {std::pair("steps_begun", scalars.steps_begun),
        {"train_steps_begun", scalars.train_steps_begun},
        {"update_count", scalars.update_count},
        {"loss_scale_good_steps", scalars.loss_scale_good_steps},
        {"loss_scale_overflows_left", scalars.loss_scale_overflows_left},
        {"nonfinite_steps", scalars.nonfinite_steps}}) {
    WEFT_RETURN_IF_ERROR(CheckCount(name, count));
  }
  Runtime& runtime = core.runtime();
  const LossScale::State scale = {.value = scalars.loss_scale,
                                  .good_steps = scalars.loss_scale_good_steps,
                                  .overflows_left = scalars.loss_scale_overflows_left};
  if (runtime.optimizer == nullptr) {
    WEFT_RETURN_IF_ERROR(CheckNoOptimizer(scalars));
  } else {
    WEFT_RETURN_IF_ERROR(runtime.optimizer->loss_scale().CheckState(scale));
    runtime.optimizer->loss_scale().SetState(scale);
    runtime.optimizer->SetUpdateCount(scalars.update_count);
    nonfinite.SetSteps(scalars.nonfinite_steps);
  }
  runtime.state.step() = scalars.steps_begun;
  core.purposes().SetStep(scalars.train_steps_begun);
  return absl::OkStatus();
}

int64_t MarkOf(const weft_shard_state_scalars_t& scalars) {
  NumberHash hash;
  for (const double number : ComparedNumbers(scalars))
    hash.Add(std::bit_cast<uint64_t>(number));
  return static_cast<int64_t>(hash.Get());
}

bool ScalarsDiffer(int64_t sum, const weft_shard_state_scalars_t& scalars, int ranks) {
  const auto own = static_cast<uint64_t>(MarkOf(scalars));
  return static_cast<uint64_t>(sum) != own * static_cast<uint64_t>(ranks);
}

absl::Status ExplainScalars(ContextCore& core, const char* call,
                            const weft_shard_state_scalars_t& scalars) {
  WEFT_RETURN_IF_ERROR(CompareNumbers(
      core, call, ComparedNumbers(scalars), core.purposes().InStep(Purpose::Kind::kUpdate),
      "; set the same on every rank with weft_shard_state_scalars_set, from one checkpoint: "
      "nothing was updated"));
  return MakeError(WEFT_CORRUPT, {.group = core.group().name(), .operation = call},
                   StrCat(call, " on group ", core.group().name(),
                          ": counts or loss scales differed between ranks and then did not; "
                          "check the memory and the links of this machine"));
}

absl::Status CompareWritten(ContextCore& core, uint32_t kinds,
                            const weft_shard_state_scalars_t& scalars) {
  ScalarNumbers numbers = ComparedNumbers(scalars);
  numbers[0] = kinds;
  numbers[1] = static_cast<double>(scalars.train_steps_begun);
  return CompareNumbers(core, "state_written", numbers, core.purposes().Of(Purpose::Kind::kCompare),
                        "; restore the same checkpoint on every rank, scalars first, and pass the "
                        "same kinds: nothing was announced");
}

}  // namespace weft
