#include "tests/support/forked_ranks.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/wait.h"

namespace weft::test {
namespace {

constexpr int kRankFailed = 42;

struct Child {
  int pid = -1;
  int pipe = -1;
};

// An exception must not come out of the child into the loop of tests, whose copy it would go on with.
std::string Say(const std::function<std::string(int)>& body, int rank) {
  try {
    return body(rank);
  } catch (const std::exception& error) {
    return std::string("it threw: ") + error.what();
  }
}

[[noreturn]] void RunChild(int pipe, int rank, const std::function<std::string(int)>& body) {
  const std::string said = Say(body, rank);
  for (size_t done = 0; done < said.size();) {
    const ssize_t count = write(pipe, said.data() + done, said.size() - done);
    if (count < 0 && errno != EINTR) break;
    if (count > 0) done += static_cast<size_t>(count);
  }
  // exit(), not _exit(): what weft does when a process ends is part of what is tested.
  std::exit(said.empty() ? 0 : kRankFailed);
}

// Reads until every child has closed its pipe or the deadline has passed.
void Collect(const std::vector<Child>& children, std::vector<RankEnd>& ends, int64_t deadline_ns) {
  std::vector<pollfd> items;
  for (const Child& child : children)
    items.push_back({child.pipe, POLLIN, 0});
  while (std::any_of(items.begin(), items.end(), [](const pollfd& item) { return item.fd >= 0; })) {
    const int64_t left_ms = (deadline_ns - MonotonicNs()) / 1'000'000;
    if (left_ms <= 0) return;
    if (poll(items.data(), items.size(), static_cast<int>(left_ms)) < 0) continue;
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i].fd < 0 || items[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t count = read(items[i].fd, buffer, sizeof(buffer));
      if (count > 0) ends[i].said.append(buffer, static_cast<size_t>(count));
      if (count == 0) items[i].fd = -1;
    }
  }
}

bool HasEnded(int pid) {
  siginfo_t info = {};
  waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT | WNOHANG);
  return info.si_pid != 0;
}

}  // namespace

std::string RankEnd::Problem() const {
  if (timed_out) return "did not end in time; it said: " + said;
  if (WIFSIGNALED(wait_status)) {
    return "killed by signal " + std::to_string(WTERMSIG(wait_status)) + "; it said: " + said;
  }
  if (!said.empty()) return said;
  if (WEXITSTATUS(wait_status) != 0) {
    return "exited with " + std::to_string(WEXITSTATUS(wait_status));
  }
  return "";
}

std::vector<RankEnd> RunForkedRanks(int size, double timeout_s,
                                    const std::function<std::string(int rank)>& body) {
  const int64_t deadline_ns = MonotonicNs() + static_cast<int64_t>(timeout_s * 1e9);
  std::vector<Child> children;
  std::fflush(nullptr);
  for (int rank = 0; rank < size; ++rank) {
    int ends[2];
    WEFT_CHECK(pipe(ends) == 0);
    const int pid = fork();
    WEFT_CHECK(pid >= 0);
    if (pid == 0) {
      for (const Child& child : children)
        close(child.pipe);
      close(ends[0]);
      RunChild(ends[1], rank, body);
    }
    close(ends[1]);
    children.push_back({pid, ends[0]});
  }
  std::vector<RankEnd> ends(children.size());
  Collect(children, ends, deadline_ns);
  for (size_t i = 0; i < children.size(); ++i) {
    ends[i].pid = children[i].pid;
    // The pipe closes a moment before the process ends, so give it until the deadline.
    while (!HasEnded(children[i].pid)) {
      if (MonotonicNs() > deadline_ns) {
        ends[i].timed_out = true;
        kill(children[i].pid, SIGKILL);
        break;
      }
      poll(nullptr, 0, 1);
    }
    while (waitpid(children[i].pid, &ends[i].wait_status, 0) < 0 && errno == EINTR) {
    }
    close(children[i].pipe);
  }
  return ends;
}

}  // namespace weft::test
