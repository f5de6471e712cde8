#include "comm/hierarchy/span_work_failure.h"

#include <string>

#include "base/text.h"
#include "fmt/format.h"

namespace weft {
namespace {

// "all_reduce #412 on group dp: ", which the fields then have as well.
std::string CallHeading(const SpanWork& work, ErrorFields* fields) {
  fields->sequence = static_cast<int64_t>(work.sequence());
  fields->operation = OpKindName(work.call().kind);
  return fmt::format("{} #{} on group {}: ", fields->operation, work.sequence(), fields->group);
}

}  // namespace

absl::Status DifferentCall(const SpanWork& failed, ErrorFields fields, int rank) {
  const Transfer& transfer = *failed.run().failed();
  const std::string heading = CallHeading(failed, &fields);
  return MakeError(
      WEFT_MISMATCH, fields,
      fmt::format("{}rank {} has issued another call there (a message of {} bytes, where rank {} "
                  "has one of {}); all ranks must issue the same operations in the same order",
                  heading, fields.rank, transfer.other_bytes, rank, transfer.bytes));
}

absl::Status LateCall(const SpanWork& late, ErrorFields fields, int rank) {
  const std::string heading = CallHeading(late, &fields);
  return MakeError(WEFT_TIMEOUT, fields,
                   fmt::format("{}rank {} waits for rank {}, which did not come to it in time",
                               heading, rank, late.run().WaitsFor()));
}

absl::Status CutOffCall(const SpanWork& waiting, ErrorFields fields, const absl::Status& why) {
  const std::string heading = CallHeading(waiting, &fields);
  return MakeError(
      WEFT_UNREACHABLE, fields,
      fmt::format("{}waits for rank {}, and {}", heading, fields.rank, FromAbsl(why.message())));
}

}  // namespace weft
