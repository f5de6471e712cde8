#include "comm/group/process_group.h"

#include "base/status.h"
#include "fmt/format.h"

namespace weft {

absl::Status ProcessGroup::NoMessages() const {
  return MakeError(WEFT_UNSUPPORTED, {.group = name()},
                   fmt::format("group {} has collectives, but no messages", name()));
}

bool ProcessGroup::TryRunCached(const CallKey&, const void*, void*, absl::Status*) {
  return false;
}

bool ProcessGroup::TryRunCached(const CallKey&, const void*, void*, const CallExtras&,
                                absl::Status*) {
  return false;
}

bool ProcessGroup::TryStartCached(const CallKey&, const void*, void*, const CallExtras&, WorkRef*) {
  return false;
}

absl::Status ProcessGroup::NoSharedMemory() const {
  return MakeError(WEFT_UNSUPPORTED, {.group = name()},
                   fmt::format("the ranks of group {} do not share memory", name()));
}

absl::StatusOr<std::shared_ptr<ProcessGroup>> ProcessGroup::Reconfigure(const std::vector<int>&,
                                                                        const GroupOptions&) {
  return NoSharedMemory();
}

absl::StatusOr<void*> ProcessGroup::AllocateShared(size_t) {
  return NoSharedMemory();
}

absl::Status ProcessGroup::FreeShared(void*) {
  return NoSharedMemory();
}

void ProcessGroup::Fail(const absl::Status& cause) {
  Abort(std::string_view(cause.message().data(), cause.message().size()));
}

absl::Status ProcessGroup::Refuse(std::optional<OpKind>, std::string_view) {
  return MakeError(WEFT_UNSUPPORTED, {.group = name()},
                   fmt::format("the ranks of group {} are not told of refused calls", name()));
}

absl::Status ProcessGroup::Run(const Message&) {
  return NoMessages();
}

absl::StatusOr<WorkRef> ProcessGroup::Start(const Message&) {
  return NoMessages();
}

absl::Status ProcessGroup::RunPair(const Message&, const Message&) {
  return NoMessages();
}

absl::StatusOr<WorkRef> ProcessGroup::StartPair(const Message&, const Message&) {
  return NoMessages();
}

absl::StatusOr<bool> ProcessGroup::TryProbe(const Message&) {
  return NoMessages();
}

ErrorFields CulpritOf(const ProcessGroup& group, int culprit, std::string_view operation) {
  ErrorFields fields{.rank = culprit, .group = group.name(), .operation = std::string(operation)};
  if (culprit >= 0) fields.world_rank = group.world_rank(culprit);
  return fields;
}

}  // namespace weft
