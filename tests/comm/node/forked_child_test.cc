// What a forked child keeps of its parent's job: no memory, and no way to touch it below the C interface either.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/group/work.h"
#include "comm/node/heap.h"
#include "message_case.h"
#include "rank_processes.h"

namespace weft::test::forked_child_test {
namespace {

// Mappings and descriptors of shared heaps that this process has.
std::string HeapsHeld() {
  std::string held;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("weft-heap") != std::string::npos) held += line + "\n";
  }
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const auto target = std::filesystem::read_symlink(entry.path(), error).string();
    if (!error && target.find("weft-heap") != std::string::npos) held += target + " is open\n";
  }
  return held;
}

// "" if `body` returns "" in a child.
std::string InAChild(const std::function<std::string()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    const std::string problem = body();
    if (!problem.empty()) fprintf(stderr, "in a forked child: %s\n", problem.c_str());
    _exit(problem.empty() ? 0 : 1);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return "no child to wait for";
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "" : "the child has failed";
}

// Memory of ranks that have ended would stay as long as the child.
TEST(ForkedChild, HasNoHeapMappedOrOpen) {
  RunProcessRanks(2, [](ProcessGroup& group) -> std::string {
    if (HeapsHeld().empty()) return "the parent's heaps were not found";
    std::string problem = InAChild(HeapsHeld);
    if (!problem.empty()) return problem;
    return Text(group.Run({.kind = OpKind::kBarrier}));
  });
}

TEST(ForkedChild, ReachesNothingOfAGroupOfProcesses) {
  RunProcessRanks(2, [](ProcessGroup& group) -> std::string {
    auto barrier = group.Start({.kind = OpKind::kBarrier});
    if (!barrier.ok()) return Text(barrier.status());
    int byte = 0;
    auto message = group.Start(RecvOf(&byte, 1, 1 - group.rank()));
    if (!message.ok()) return Text(message.status());
    std::string problem = InAChild([&]() -> std::string {
      const auto forked = [](const absl::Status& status) {
        return ResultOf(status) == WEFT_FORKED;
      };
      if (!forked(group.error())) return "error";
      if (!forked(group.Run({.kind = OpKind::kBarrier}))) return "run";
      if (!forked(group.Start({.kind = OpKind::kBarrier}).status())) return "start";
      if (!forked(group.Run(SendOf(&byte, 1, 0)))) return "send";
      if (!forked(group.Start(SendOf(&byte, 1, 0)).status())) return "start of a send";
      if (!forked(group.Split(0, 0, {}).status())) return "split";
      if (!forked(group.AllocateShared(64).status())) return "allocate shared";
      for (const WorkRef& work : {*barrier, *message}) {
        (void)work->Test();
        if (!work->ended() && !forked(work->Wait(0))) return "wait";
      }
      group.Abort("by a child");
      group.Close();
      if (!forked(ProcessHeap().Allocate(64).status())) return "heap";
      if (!forked(CreateLocalGroups(1, {.name = "child"}).status())) return "making a group";
      return "";
    });
    if (!problem.empty()) return problem;
    const absl::Status sent = group.Run(SendOf("x", 1, 1 - group.rank()));
    if (!sent.ok()) return Text(sent);
    const absl::Status ended = (*message)->Wait(0);
    return ended.ok() ? Text((*barrier)->Wait(0)) : Text(ended);
  });
}

}  // namespace
}  // namespace weft::test::forked_child_test
