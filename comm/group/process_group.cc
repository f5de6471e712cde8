#include "comm/group/process_group.h"

#include "base/status.h"
#include "fmt/format.h"

namespace weft {

absl::Status ProcessGroup::NoMessages() const {
  return MakeError(WEFT_UNSUPPORTED, {.group = name()},
                   fmt::format("group {} has collectives, but no messages", name()));
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

}  // namespace weft
