// A name may be that of a pod that is about to start: what the resolver does not know is asked again. Only a thread can give up
// waiting for the C library's resolver, which has no deadline.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>

#include "base/hidden_thread.h"
#include "base/interrupt.h"
#include "base/later.h"
#include "base/log.h"
#include "base/net.h"
#include "base/standard_fds.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"

namespace weft {
namespace {

constexpr int64_t kLongestNs = int64_t{86'400} * 1'000'000'000;
constexpr int64_t kFirstResolvePauseNs = 250'000'000;
constexpr int64_t kLongestResolvePauseNs = 2'000'000'000;
constexpr int64_t kSayResolvingNs = 2'000'000'000;

bool IsNumericHost(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &address) == 1;
}

std::string Numeric(const sockaddr* address, socklen_t size) {
  char text[NI_MAXHOST];
  if (getnameinfo(address, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return text;
}

// Shared by the asker and the thread in getaddrinfo, which has no deadline of its own and may
// outlive the asker by its whole retry schedule.
struct Question {
  std::mutex mutex;
  std::condition_variable answered;
  bool done = false;
  int error = 0;
  std::string address;
};

void Ask(const std::string& host, Question& question) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  HoldStandardFds();
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  std::string address;
  if (error == 0 && found != nullptr) address = Numeric(found->ai_addr, found->ai_addrlen);
  if (found != nullptr) freeaddrinfo(found);
  std::lock_guard<std::mutex> lock(question.mutex);
  question.error = error;
  question.address = address;
  question.done = true;
  question.answered.notify_all();
}

// One look, for `left_ns` at most. OK with "": the resolver says why not, in *error.
absl::StatusOr<std::string> LookUp(const std::string& host, int64_t left_ns, int* error) {
  auto question = std::make_shared<Question>();
  absl::StatusOr<std::thread> thread =
      StartHiddenThread("weft-resolve", [host, question] { Ask(host, *question); });
  if (!thread.ok()) {
    return Annotate(thread.status(), StrCat("could not resolve the host name ", host, ": "));
  }
  thread->detach();
  const int64_t until_ns = Later(MonotonicNs(), left_ns);
  std::unique_lock<std::mutex> lock(question->mutex);
  while (!question->done) {
    const int64_t wait_ns = until_ns - MonotonicNs();
    if (wait_ns <= 0) {
      return MakeError(WEFT_TIMEOUT,
                       StrCat("could not resolve the host name ", host, " before the deadline"));
    }
    question->answered.wait_for(lock, std::chrono::nanoseconds(UntilInterruptNs(wait_ns)));
    WEFT_RETURN_IF_ERROR(CheckInterrupt(StrCat("resolving the host name ", host)));
  }
  *error = question->error;
  return question->address;
}

// Sleeps, but for looks whether the thread is to be interrupted.
absl::Status Pause(const std::string& host, int64_t pause_ns) {
  const int64_t until_ns = MonotonicNs() + pause_ns;
  while (true) {
    WEFT_RETURN_IF_ERROR(CheckInterrupt(StrCat("waiting for the host name ", host)));
    const int64_t left_ns = until_ns - MonotonicNs();
    if (left_ns <= 0) return absl::OkStatus();
    const int64_t nap_ns = UntilInterruptNs(left_ns);
    poll(nullptr, 0, static_cast<int>(nap_ns / 1'000'000 + 1));
  }
}

}  // namespace

absl::StatusOr<std::string> ResolveHost(const std::string& host, int64_t deadline_ns) {
  if (IsNumericHost(host)) return host;
  const int64_t began_ns = MonotonicNs();
  int64_t pause_ns = kFirstResolvePauseNs;
  bool said = false;
  while (true) {
    int error = 0;
    // A day is for ever here, and the standard library adds without looking.
    const int64_t left_ns = std::min(deadline_ns - MonotonicNs(), kLongestNs);
    WEFT_ASSIGN_OR_RETURN(std::string address, LookUp(host, std::max<int64_t>(left_ns, 0), &error));
    if (said && !address.empty()) LogInfo("the host name ", host, " is known now: ", address);
    if (!address.empty()) return address;
    const int64_t now_ns = MonotonicNs();
    if (Later(now_ns, pause_ns) >= deadline_ns) {
      return MakeError(WEFT_UNREACHABLE,
                       StrCat("could not resolve the host name ", host, ": ", gai_strerror(error),
                              ", for ", (now_ns - began_ns) / 1'000'000'000,
                              " s; name a host that this machine knows, or its address"));
    }
    if (!said && now_ns - began_ns >= kSayResolvingNs) {
      LogWarn("the host name ", host, " is not known here (", gai_strerror(error),
              "); waiting for it, at most ",
              std::min(deadline_ns - now_ns, kLongestNs) / 1'000'000'000, " s");
      said = true;
    }
    WEFT_RETURN_IF_ERROR(Pause(host, pause_ns));
    pause_ns = std::min(2 * pause_ns, kLongestResolvePauseNs);
  }
}

}  // namespace weft
