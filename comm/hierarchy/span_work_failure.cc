#include "comm/hierarchy/span_work_failure.h"

#include <bit>
#include <optional>
#include <string>

#include "base/text.h"
#include "comm/group/refusal.h"
#include "comm/recorder/describe.h"
#include "comm/recorder/ring.h"
#include "fmt/format.h"

namespace weft {
namespace {

// "all_reduce #412 on group dp: ", which the fields then have as well.
std::string CallHeading(const SpanWork& work, ErrorFields* fields) {
  fields->sequence = static_cast<int64_t>(work.sequence());
  fields->operation = CallName(work.call().kind, work.call().purpose.record);
  return fmt::format("{} #{} on group {}: ", fields->operation, work.sequence(), fields->group);
}

// What a rank called, by what it has shown of it.
std::string CalledBy(int rank, const std::optional<RecordedCall>& call, const PurposeNames* names) {
  if (!call) return fmt::format("rank {} called what this version does not know", rank);
  return fmt::format("rank {} {}", rank, CalledText(*call, names));
}

// Of calls that have the same words.
std::string Distinction(const Transfer& transfer) {
  if (transfer.signature != transfer.other_signature) {
    return fmt::format(" (signatures {:08x} and {:08x})", transfer.other_signature,
                       transfer.signature);
  }
  return fmt::format(" (a message of {} bytes and one of {})", transfer.other_bytes,
                     transfer.bytes);
}

}  // namespace

// Why a call was refused the node of its rank adds (SpanEnd::Traced).
absl::Status DifferentCall(const SpanWork& failed, ErrorFields fields, int rank, int other_rank) {
  const Transfer& transfer = *failed.run().failed();
  const std::string heading = CallHeading(failed, &fields);
  const PurposeNames* const names = failed.call().purpose.names;
  const auto mine = RecorderRing::CallOf(std::bit_cast<RecordedArguments>(transfer.record));
  const auto other = RecorderRing::CallOf(std::bit_cast<RecordedArguments>(transfer.other_record));
  const std::string calls = fmt::format("{}{}, {}", heading, CalledBy(other_rank, other, names),
                                        CalledBy(rank, mine, names));
  if ((mine && IsRefusal(mine->purpose)) || (other && IsRefusal(other->purpose)))
    return MakeError(WEFT_MISMATCH, fields, calls);
  const bool alike =
      mine && other && DescribeArguments(*mine, names) == DescribeArguments(*other, names);
  return MakeError(WEFT_MISMATCH, fields,
                   fmt::format("{}{}; all ranks must issue the same operations in the same order",
                               calls, alike ? Distinction(transfer) : ""));
}

absl::Status LateCall(const SpanWork& late, ErrorFields fields, int rank) {
  const std::string heading = CallHeading(late, &fields);
  const int awaited = late.run().WaitsFor();
  const bool met = awaited >= 0 && late.run().HasMet(awaited);
  return MakeError(
      WEFT_TIMEOUT, fields,
      fmt::format("{}rank {} waits for rank {}, which {}", heading, rank, awaited,
                  met ? "has come to it, but what the two exchange was not through in time"
                      : "did not come to it in time"));
}

absl::Status CutOffCall(const SpanWork& waiting, ErrorFields fields, int rank,
                        const absl::Status& why) {
  const std::string heading = CallHeading(waiting, &fields);
  return MakeError(WEFT_UNREACHABLE, fields,
                   fmt::format("{}rank {} waits for rank {}, and {}", heading, rank, fields.rank,
                               FromAbsl(why.message())));
}

}  // namespace weft
