// The little of PMI-1 that a bootstrap needs: rank 0's endpoint to all ranks, over PMI_FD.
//
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<PmiClient> pmi, PmiClient::Start(fd, deadline_ns));
//   WEFT_ASSIGN_OR_RETURN(std::string endpoint,
//                         pmi->PublishFromRankZero(rank, "tcp:node1:4711", deadline_ns));
//
// PMI-1 is no Store: a value can be put once, is seen by others only after a barrier of all ranks,
// and nothing can be added up. So it carries one value, and a real store takes over from there.
// The process must not also speak PMI-1 through another library (an MPI): the descriptor has one
// conversation. Lines from the launcher are bounded and checked like bytes of any peer.
// Thread-safety: one thread at a time. Borrows the descriptor; the destructor says cmd=finalize.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft {

constexpr size_t kPmiLineBytesMax = 4096;

class PmiClient {
 public:
  // Says hello and asks for the name of the job's key-value space.
  static absl::StatusOr<std::unique_ptr<PmiClient>> Start(int fd, int64_t deadline_ns);
  ~PmiClient();
  PmiClient(const PmiClient&) = delete;
  PmiClient& operator=(const PmiClient&) = delete;

  const std::string& space() const { return space_; }

  // Collective over all ranks of the job; returns what rank 0 passed as `value` (printable, without
  // white space and '='; the other ranks' is not looked at).
  absl::StatusOr<std::string> PublishFromRankZero(int rank, std::string_view value,
                                                  int64_t deadline_ns);

 private:
  explicit PmiClient(int fd) : fd_(fd) {}

  absl::StatusOr<std::string> Ask(std::string_view command, std::string_view answer,
                                  int64_t deadline_ns);
  absl::Status Send(std::string_view line, int64_t deadline_ns);
  absl::StatusOr<std::string> ReceiveLine(int64_t deadline_ns);

  const int fd_;
  std::string space_;
  std::string unread_;    // received bytes behind the last line
  bool healthy_ = false;  // the conversation is in step: finalize may be said
};

}  // namespace weft
