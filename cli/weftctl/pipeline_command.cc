// PrintPipeline.
#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/new_fd.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/weftctl/commands.h"
#include "shard/pipeline/pipeline_json.h"
#include "shard/pipeline/pipeline_kinds.h"
#include "shard/pipeline/pipeline_svg.h"
#include "shard/pipeline/simulate_pipeline.h"
#include "shard/pipeline/verify_pipeline.h"

namespace weft {
namespace {

std::string KindNames() {
  std::string names;
  for (const PipelineKind kind : kPipelineKinds)
    names += StrCat(names.empty() ? "" : ", ", NameOf(kind));
  return names;
}

// A schedule with a name, or one that a file has.
absl::StatusOr<PipelineSchedule> Make(const PipelineArguments& arguments) {
  if (const std::optional<PipelineKind> kind = PipelineKindOf(arguments.kind)) {
    return BuildPipeline(*kind, {.ranks = arguments.ranks,
                                 .microbatches = arguments.microbatches,
                                 .chunks = arguments.chunks});
  }
  if (arguments.kind.find_first_of("./") == std::string::npos) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("there is no pipeline \"", arguments.kind, "\"; there are ",
                            KindNames(), ", and files with a dot or a slash in their names"));
  }
  const UniqueFd fd = OpenFile(arguments.kind, O_RDONLY);
  if (!fd.valid()) return SystemError(errno, StrCat("opening ", arguments.kind));
  WEFT_ASSIGN_OR_RETURN(
      const std::string text,
      ReadFile(fd.get(), kPipelineTextBytesMax + 1, StrCat("reading ", arguments.kind)));
  return PipelineFromJson(text);
}

std::string Text(const PipelineSchedule& schedule, const PipelineProof& proof,
                 const PipelineTimeline& timeline, int rank) {
  const PipelineShape& shape = schedule.shape;
  std::string text = fmt::format(
      "proved: {} ranks, {} micro-batches, {} chunk{} of each rank; {} messages\n"
      "a step takes {:g}, and {:.2f} % of the ranks' time is idle\n\n"
      "rank       busy       idle   micro-batches kept\n",
      shape.ranks, shape.microbatches, shape.chunks, shape.chunks == 1 ? "" : "s", proof.messages,
      timeline.seconds, 100 * timeline.Bubble());
  for (size_t i = 0; i < schedule.actions.size(); i++) {
    text += fmt::format("{:>4} {:>10g} {:>10g} {:>20}\n", i, timeline.busy[i],
                        timeline.seconds - timeline.busy[i], proof.peak_activations[i]);
  }
  if (rank < 0) return text;
  text += fmt::format("\nrank {}\n", rank);
  const auto own = static_cast<size_t>(rank);
  for (size_t i = 0; i < schedule.actions[own].size(); i++) {
    const PipelineSpan& span = timeline.spans[own][i];
    text += fmt::format("{:>10g} to {:<10g} {}\n", span.begin, span.end,
                        Describe(schedule.actions[own][i]));
  }
  return text;
}

absl::StatusOr<std::string> Print(const PipelineArguments& arguments, PipelineForm form) {
  WEFT_ASSIGN_OR_RETURN(const PipelineSchedule schedule, Make(arguments));
  WEFT_ASSIGN_OR_RETURN(const PipelineProof proof, VerifyPipeline(schedule));
  if (form == PipelineForm::kJson) return PipelineAsJson(schedule);
  const StageCosts costs = {arguments.forward, arguments.backward_input, arguments.backward_weight};
  if (std::min({costs.forward, costs.backward_input, costs.backward_weight, arguments.message}) <
      0) {
    return MakeError(WEFT_INVALID_ARGUMENT, "nothing takes less than no time");
  }
  if (costs.forward + costs.backward_input + costs.backward_weight <= 0)
    return MakeError(WEFT_INVALID_ARGUMENT, "something must take time");
  WEFT_ASSIGN_OR_RETURN(
      const PipelineTimeline timeline,
      SimulatePipeline(schedule, {.stages = {costs}, .message = arguments.message}));
  if (form == PipelineForm::kSvg) return PipelineAsSvg(schedule, timeline);
  if (arguments.rank < -1 || arguments.rank >= schedule.shape.ranks) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("there is no rank ", arguments.rank, " among ", schedule.shape.ranks));
  }
  return Text(schedule, proof, timeline, arguments.rank);
}

}  // namespace

CommandOutput PrintPipeline(const PipelineArguments& arguments, PipelineForm form) {
  const absl::StatusOr<std::string> text = Print(arguments, form);
  if (!text.ok()) return {"", {std::string(text.status().message())}};
  return {*text, {}};
}

}  // namespace weft
