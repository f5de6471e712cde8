// PrintSchedule, VerifySchedules, ImportSchedule.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/new_fd.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/weftctl/commands.h"
#include "cli/weftctl/msccl_schedule.h"
#include "cli/weftctl/msccl_xml.h"
#include "comm/schedule/algorithms.h"
#include "comm/schedule/hierarchy.h"
#include "comm/schedule/schedule_json.h"
#include "comm/schedule/verify_schedule.h"

namespace weft {
namespace {

std::string BufferText(uint32_t buffer) {
  constexpr const char* kNames[] = {"input", "output", "partials"};
  return buffer < kScratchBuffers ? kNames[buffer]
                                  : fmt::format("scratch{}", buffer - kScratchBuffers);
}

std::string RangeText(const UnitPlace& place, uint64_t units) {
  return fmt::format("{}[{}, {})", BufferText(place.buffer), place.offset, place.offset + units);
}

std::string SourceText(const SourceRun& run, uint64_t units) {
  std::string text = RangeText(run.place, units);
  if (run.count > 1) text += fmt::format(" and {} more, {} apart", run.count - 1, run.stride);
  return text;
}

std::string SourcesText(const ScheduleOp& op) {
  std::string text;
  for (const SourceRun& run : op.from)
    text += (text.empty() ? "" : " + ") + SourceText(run, op.units);
  return text;
}

std::string AfterText(const ScheduleOp& op) {
  std::string text;
  for (const OpRange& range : op.after) {
    text += text.empty() ? "  after " : ", ";
    text += std::to_string(range.begin);
    if (range.end - range.begin <= range.step) continue;
    text += fmt::format(" to {}", range.end - 1);
    if (range.step != 1) text += fmt::format(" by {}", range.step);
  }
  return text;
}

std::string OpText(const ScheduleOp& op) {
  const std::string after = AfterText(op);
  switch (op.action) {
    case OpAction::kSend:
      return fmt::format("send to {}, tag {}: {}{}", op.peer, op.tag, SourcesText(op), after);
    case OpAction::kRecv:
      return fmt::format("recv from {}, tag {}: {}{}", op.peer, op.tag, RangeText(op.to, op.units),
                         after);
    case OpAction::kReduce:
      return fmt::format("{} {} = {}{}", op.stage == SumStage::kFinal ? "result" : "sum",
                         RangeText(op.to, op.units), SourcesText(op), after);
    case OpAction::kCopy:
      return fmt::format("copy {} = {}{}", RangeText(op.to, op.units), SourcesText(op), after);
  }
  return "";
}

std::string ScheduleText(const CollectiveSchedule& schedule, int first, int end) {
  const ScheduleGoal& goal = schedule.goal();
  std::string text =
      fmt::format("{} {} of {} participants, {} units{}{}; window {}{}\n", schedule.algorithm(),
                  GoalName(goal.kind), goal.participants, goal.count,
                  goal.HasRoot() ? fmt::format(", root {}", goal.root) : "",
                  !goal.Reduces()   ? ""
                  : goal.order_free ? ", sums in any order"
                                    : ", sums in a fixed order",
                  schedule.window(), schedule.in_place() ? ", can be in place" : "");
  for (int participant = first; participant < end; ++participant) {
    const SentUnits sent = schedule.SentBy(participant);
    text += fmt::format("participant {}: sends {} elements and {} accumulators\n", participant,
                        sent.elements, sent.accumulators);
    const std::unique_ptr<OpStream> stream = schedule.OpsOf(participant);
    uint64_t number = 0;
    for (ScheduleOp op; stream->Next(&op); ++number)
      text += fmt::format("  {:>4} {}\n", number, OpText(op));
  }
  return text;
}

// The schedule by its name; with a group, the hierarchy of which it is the part across.
absl::StatusOr<std::unique_ptr<CollectiveSchedule>> Make(const ScheduleArguments& arguments,
                                                         const ScheduleGoal& goal) {
  if (arguments.group == 0) return MakeSchedule(arguments.algorithm, goal);
  WEFT_RETURN_IF_ERROR(CheckGoal(goal));
  const auto across =
      std::find_if(std::begin(kScheduleAlgorithms), std::end(kScheduleAlgorithms),
                   [&](const ScheduleAlgorithm& one) { return one.name == arguments.algorithm; });
  if (across != std::end(kScheduleAlgorithms)) {
    std::vector<int> island_of;
    island_of.reserve(static_cast<size_t>(goal.participants));
    for (int participant = 0; participant < goal.participants; ++participant)
      island_of.push_back(participant / arguments.group);
    if (std::unique_ptr<CollectiveSchedule> schedule =
            MakeHierarchySchedule(goal, island_of, 1, across->make))
      return schedule;
  }
  return MakeError(
      WEFT_UNSUPPORTED,
      StrCat(
          "there is no hierarchy of groups of ", arguments.group, " with ", arguments.algorithm,
          " across; there are for all_reduce, reduce, reduce_scatter, broadcast and all_gather of "
          "two groups or more, if that algorithm serves what goes across"));
}

absl::StatusOr<std::string> Show(const ScheduleArguments& arguments, bool json) {
  ScheduleGoal goal = {.participants = arguments.participants,
                       .count = arguments.count,
                       .root = arguments.root,
                       .order_free = arguments.order_free};
  bool known = false;
  for (const GoalKind kind : kGoalKinds) {
    if (GoalName(kind) != arguments.goal) continue;
    goal.kind = kind;
    known = true;
  }
  if (!known)
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("there is no goal \"", arguments.goal, "\"; all_reduce is one"));
  if (goal.kind == GoalKind::kBarrier) goal.count = 0;
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<CollectiveSchedule> schedule, Make(arguments, goal));
  if (json) return ScheduleAsJson(*schedule);
  if (arguments.participant < -1 || arguments.participant >= goal.participants) {
    return MakeError(
        WEFT_INVALID_ARGUMENT,
        StrCat("there is no participant ", arguments.participant, " among ", goal.participants));
  }
  if (arguments.participant >= 0)
    return ScheduleText(*schedule, arguments.participant, arguments.participant + 1);
  return ScheduleText(*schedule, 0, goal.participants);
}

absl::StatusOr<std::unique_ptr<CollectiveSchedule>> ReadSchedule(const std::string& path) {
  const UniqueFd fd = OpenFile(path, O_RDONLY);
  if (!fd.valid()) return SystemError(errno, "opening it");
  WEFT_ASSIGN_OR_RETURN(const std::string text,
                        ReadFile(fd.get(), kScheduleTextBytesMax + 1, "reading it"));
  // JSON begins with a brace.
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos || text[begin] != '<') return ScheduleFromJson(text);
  WEFT_ASSIGN_OR_RETURN(const MscclAlgorithm algorithm, ReadMscclXml(text));
  return ScheduleOfMsccl(algorithm);
}

std::string ProofText(const CollectiveSchedule& schedule, const ScheduleProof& proof) {
  SentUnits most;
  for (const SentUnits& sent : proof.sent) {
    most.elements = std::max(most.elements, sent.elements);
    most.accumulators = std::max(most.accumulators, sent.accumulators);
  }
  return fmt::format(
      "proved: {} {} of {} participants, {} units; {} ops, {} messages, {} levels; at most {} "
      "elements and {} accumulators sent by "
      "one; window {}{}; sha256 {}",
      schedule.algorithm(), GoalName(schedule.goal().kind), schedule.goal().participants,
      schedule.goal().count, proof.ops, proof.messages, proof.levels, most.elements,
      most.accumulators, schedule.window(), proof.in_place ? ", also in place" : "",
      ScheduleHash(schedule));
}

absl::StatusOr<std::string> Verify(const std::string& path) {
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<CollectiveSchedule> schedule, ReadSchedule(path));
  WEFT_ASSIGN_OR_RETURN(const ScheduleProof proof, VerifySchedule(*schedule));
  return ProofText(*schedule, proof);
}

absl::StatusOr<std::string> Import(const std::string& path) {
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<CollectiveSchedule> schedule, ReadSchedule(path));
  WEFT_RETURN_IF_ERROR(VerifySchedule(*schedule).status());
  return ScheduleAsJson(*schedule);
}

CommandOutput OutputOf(const absl::StatusOr<std::string>& text, std::string_view prefix) {
  if (!text.ok()) return {"", {StrCat(prefix, text.status().message())}};
  return {*text, {}};
}

}  // namespace

CommandOutput PrintSchedule(const ScheduleArguments& arguments, bool json) {
  return OutputOf(Show(arguments, json), "");
}

CommandOutput VerifySchedules(const std::vector<std::string>& paths) {
  CommandOutput output;
  for (const std::string& path : paths) {
    const CommandOutput one = OutputOf(Verify(path), path + ": ");
    if (one.problems.empty()) output.text += fmt::format("{}: {}\n", path, one.text);
    output.problems.insert(output.problems.end(), one.problems.begin(), one.problems.end());
  }
  return output;
}

CommandOutput ImportSchedule(const std::string& path) {
  return OutputOf(Import(path), path + ": ");
}

}  // namespace weft
