// A second process that takes part in what a section tries between two: it is made before the driver is opened, as a driver does not
// survive fork(), and answers requests until the first process lets it go.
//
//   PeerProcess peer(Serve);                                   // first thing in main(); Serve runs in the other process
//   WEFT_ASSIGN_OR_RETURN(std::string answer, peer.Ask(request, fd));
//
// An answer that does not come within kPeerSeconds is an error, and so is one that begins with '!': the rest of it is why.
// Thread-safety: none.
#pragma once

#include <functional>
#include <string>

#include <sys/types.h>

#include "absl/status/statusor.h"

namespace weft::test {

constexpr int kPeerSeconds = 20;

class PeerProcess {
 public:
  // What the other process makes of a request, and of the descriptor that came with it, or -1, which it closes.
  using Serve = std::function<absl::StatusOr<std::string>(const std::string& request, int fd)>;

  // Returns in this process only.
  explicit PeerProcess(const Serve& serve);
  // Ends the other process.
  ~PeerProcess();

  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  // `fd`: a descriptor that is sent along, or -1. The two halves apart, for what both processes do at once.
  absl::StatusOr<std::string> Ask(const std::string& request, int fd = -1);
  absl::Status Send(const std::string& request, int fd = -1);
  absl::StatusOr<std::string> Receive();

 private:
  int socket_ = -1;
  pid_t pid_ = -1;
};

}  // namespace weft::test
