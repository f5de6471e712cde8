// An MSCCL algorithm as a schedule of weft.
//
//   WEFT_ASSIGN_OR_RETURN(const MscclAlgorithm algorithm, ReadMscclXml(text));
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<CollectiveSchedule> schedule, ScheduleOfMsccl(algorithm));
//   WEFT_ASSIGN_OR_RETURN(ScheduleProof proof, VerifySchedule(*schedule));
//
// A unit is a chunk; sums may be in any order. What differs, and how it is mended:
//  - The steps of a thread block run one after the other, and a send has ended when its data has been read. Ops here are ordered by `after`
//    alone, and sends may wait for their receives. So an op comes after the last op of its block that is no send, and after those sends
//    that have read what it writes over.
//  - A step may receive, add and send. It becomes up to three ops, with scratch of its own where MSCCL keeps data in registers.
//  - An algorithm in place works in one memory. Here the input is copied to where that is (in place the copy moves nothing).
//  - Which sum is the result, MSCCL need not know. All sums are partial ones; at the end each participant turns its output into results.
//
// Thread-safety: pure.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "cli/weftctl/msccl_xml.h"
#include "comm/schedule/schedule.h"

namespace weft {

// UNSUPPORTED for other collectives than allreduce, allgather, reducescatter and alltoall; CORRUPT if steps wait for each other or for
// ones that there are not, or if two thread blocks share a connection. Whether the algorithm is right is for VerifySchedule.
absl::StatusOr<std::unique_ptr<CollectiveSchedule>> ScheduleOfMsccl(
    const MscclAlgorithm& algorithm);

}  // namespace weft
