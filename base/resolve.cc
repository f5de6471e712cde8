#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include "base/net.h"
#include "base/standard_fds.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"

namespace weft {
namespace {

bool IsNumeric(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
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

}  // namespace

absl::StatusOr<std::string> ResolveHost(const std::string& host, int64_t deadline_ns) {
  if (IsNumeric(host)) return host;
  auto question = std::make_shared<Question>();
  try {
    std::thread([host, question] { Ask(host, *question); }).detach();
  } catch (const std::system_error& error) {
    return SystemError(error.code().value(), StrCat("could not start a thread to resolve ", host));
  }
  std::unique_lock<std::mutex> lock(question->mutex);
  // A day is for ever here, and the standard library adds without looking.
  constexpr int64_t kLongestNs = int64_t{86'400} * 1'000'000'000;
  const int64_t now_ns = MonotonicNs();
  const int64_t left_ns = deadline_ns > now_ns ? std::min(deadline_ns - now_ns, kLongestNs) : 0;
  const auto left = std::chrono::nanoseconds(left_ns);
  if (!question->answered.wait_for(lock, left, [&] { return question->done; })) {
    return MakeError(WEFT_TIMEOUT,
                     StrCat("could not resolve the host name ", host, " before the deadline"));
  }
  if (question->error != 0 || question->address.empty()) {
    return MakeError(WEFT_UNREACHABLE, StrCat("could not resolve the host name ", host, ": ",
                                              gai_strerror(question->error)));
  }
  return question->address;
}

}  // namespace weft
