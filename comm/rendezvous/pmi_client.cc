// PMI-1 is a conversation of lines without numbers: an answer belongs to a question only if all questions before it were
// answered. Once one was not (a deadline, a line that does not fit) the two sides may be out of step for good. Ask() then leaves
// healthy_ false, and the destructor says nothing more.
#include "comm/rendezvous/pmi_client.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/str_split.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/notice_times.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"

namespace weft {
namespace {

constexpr std::string_view kEndpointKey = "weft-endpoint";
constexpr int64_t kFinalizeNs = 1'000'000'000;

// The value of `key` in "cmd=x key=value ..."; "" if it is absent.
std::string_view Field(std::string_view line, std::string_view key) {
  for (const absl::string_view piece : absl::StrSplit(ToAbsl(line), ' ')) {
    const std::string_view word = FromAbsl(piece);
    const size_t equal = word.find('=');
    if (equal != std::string_view::npos && word.substr(0, equal) == key) {
      return word.substr(equal + 1);
    }
  }
  return "";
}

bool IsPlainWord(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](char c) { return c > ' ' && c < 127 && c != '='; });
}

absl::Status WaitFor(int fd, short events, int64_t deadline_ns) {
  NoticeTimes notices(MonotonicNs());
  while (true) {
    const int64_t left_ms = (deadline_ns - MonotonicNs() + 999'999) / 1'000'000;
    if (left_ms <= 0) {
      return MakeError(
          WEFT_TIMEOUT,
          "waiting for the launcher's PMI-1 answer: the deadline passed; a rank of the "
          "job may not have reached weft's initialization");
    }
    pollfd watch{fd, events, 0};
    WEFT_RETURN_IF_ERROR(CheckInterrupt("waiting for the launcher's PMI-1 answer"));
    if (const int64_t waited_s = notices.Due(MonotonicNs()); waited_s > 0) {
      LogWarn("this process has waited ", waited_s,
              " s for the launcher's PMI-1 answer, which comes when all ranks of the job have "
              "reached weft's initialization; check that they were started, and do not wait "
              "elsewhere");
    }
    // Rounded up, so that a notice is due when poll() returns.
    const int64_t notice_ms = (notices.next_ns() - MonotonicNs()) / 1'000'000 + 1;
    const int64_t nap_ms =
        UntilInterruptNs(std::min({left_ms, notice_ms, int64_t{60'000}}) * 1'000'000) / 1'000'000;
    const int n = poll(&watch, 1, static_cast<int>(nap_ms));
    if (n > 0) return absl::OkStatus();
    if (n < 0 && errno != EINTR) return SystemError(errno, "polling PMI_FD");
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<PmiClient>> PmiClient::Start(int fd, int64_t deadline_ns) {
  auto client = std::unique_ptr<PmiClient>(new PmiClient(fd));
  WEFT_ASSIGN_OR_RETURN(std::string hello, client->Ask("cmd=init pmi_version=1 pmi_subversion=1",
                                                       "response_to_init", deadline_ns));
  if (Field(hello, "rc") != "0") {
    return MakeError(WEFT_UNSUPPORTED, StrCat("the launcher refused PMI version 1.1: \"", hello,
                                              "\"; start the job with weftrun"));
  }
  client->healthy_ = true;
  WEFT_ASSIGN_OR_RETURN(std::string name,
                        client->Ask("cmd=get_my_kvsname", "my_kvsname", deadline_ns));
  client->space_ = std::string(Field(name, "kvsname"));
  if (!IsPlainWord(client->space_)) {
    client->healthy_ = false;
    return MakeError(WEFT_CORRUPT, StrCat("PMI-1: no key-value space in \"", name, "\""));
  }
  return client;
}

PmiClient::~PmiClient() {
  // A launcher that saw init takes a missing finalize for a crash.
  if (healthy_)
    Ask("cmd=finalize", "finalize_ack", MonotonicNs() + kFinalizeNs).status().IgnoreError();
}

absl::StatusOr<std::string> PmiClient::PublishFromRankZero(int rank, std::string_view value,
                                                           int64_t deadline_ns) {
  if (rank == 0) {
    if (!IsPlainWord(value)) {
      return MakeError(WEFT_INVALID_ARGUMENT,
                       StrCat("PMI-1 cannot carry \"", value, "\": white space or '='"));
    }
    WEFT_ASSIGN_OR_RETURN(std::string put, Ask(StrCat("cmd=put kvsname=", space_,
                                                      " key=", kEndpointKey, " value=", value),
                                               "put_result", deadline_ns));
    if (Field(put, "rc") != "0") {
      return MakeError(WEFT_REMOTE_ERROR, StrCat("PMI-1 put was refused: \"", put, "\""));
    }
  }
  WEFT_RETURN_IF_ERROR(Ask("cmd=barrier_in", "barrier_out", deadline_ns).status());
  WEFT_ASSIGN_OR_RETURN(
      std::string got,
      Ask(StrCat("cmd=get kvsname=", space_, " key=", kEndpointKey), "get_result", deadline_ns));
  const std::string_view published = Field(got, "value");
  if (Field(got, "rc") != "0" || !IsPlainWord(published)) {
    return MakeError(WEFT_REMOTE_ERROR, StrCat("PMI-1 has no endpoint of rank 0: \"", got, "\""));
  }
  return std::string(published);
}

absl::StatusOr<std::string> PmiClient::Ask(std::string_view command, std::string_view answer,
                                           int64_t deadline_ns) {
  const bool was_healthy = std::exchange(healthy_, false);
  WEFT_RETURN_IF_ERROR(Send(StrCat(command, "\n"), deadline_ns));
  WEFT_ASSIGN_OR_RETURN(std::string line, ReceiveLine(deadline_ns));
  if (Field(line, "cmd") != answer) {
    return MakeError(WEFT_CORRUPT, StrCat("PMI-1: expected cmd=", answer,
                                          " from the launcher, got \"", line.substr(0, 80), "\""));
  }
  healthy_ = was_healthy;
  return line;
}

absl::Status PmiClient::Send(std::string_view line, int64_t deadline_ns) {
  if (line.size() > kPmiLineBytesMax) {
    return MakeError(WEFT_INVALID_ARGUMENT, StrCat("PMI-1 lines have at most ", kPmiLineBytesMax,
                                                   " bytes, this one has ", line.size()));
  }
  while (!line.empty()) {
    WEFT_RETURN_IF_ERROR(WaitFor(fd_, POLLOUT, deadline_ns));
    // PMI_FD is a socket pair with Hydra and may be anything elsewhere.
    ssize_t n = send(fd_, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == ENOTSOCK) n = write(fd_, line.data(), line.size());
    if (n < 0 && errno != EINTR && errno != EAGAIN) return SystemError(errno, "writing to PMI_FD");
    if (n > 0) line.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> PmiClient::ReceiveLine(int64_t deadline_ns) {
  while (true) {
    const size_t end = unread_.find('\n');
    if (end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    if (unread_.size() >= kPmiLineBytesMax) {
      return MakeError(WEFT_CORRUPT, StrCat("PMI-1: a line of more than ", kPmiLineBytesMax,
                                            " bytes from the launcher"));
    }
    WEFT_RETURN_IF_ERROR(WaitFor(fd_, POLLIN, deadline_ns));
    char buffer[512];
    const ssize_t n = read(fd_, buffer, std::min(sizeof buffer, kPmiLineBytesMax - unread_.size()));
    if (n == 0) return MakeError(WEFT_REMOTE_ERROR, "the launcher closed PMI_FD");
    if (n < 0 && errno != EINTR && errno != EAGAIN)
      return SystemError(errno, "reading from PMI_FD");
    if (n > 0) unread_.append(buffer, static_cast<size_t>(n));
  }
}

}  // namespace weft
