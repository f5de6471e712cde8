// What must not last: limits, filters, mounts and users of a forked child.
//
//   EXPECT_EQ(InChild([] { ...; return std::string(what is wrong, or nothing); }), "");
//   InChild([] { if (!EnterOwnMounts()) return std::string("skip"); mount(...); ... });
#pragma once

#include <array>
#include <fstream>
#include <string>

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"

namespace weft::test {

// What `body` returns, or how the child has ended instead.
template <typename Body>
std::string InChild(Body body) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    const std::string said = body();
    const ssize_t written = write(ends[1], said.data(), said.size());
    _exit(written == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string said;
  std::array<char, 512> part;
  for (ssize_t got = 1; got > 0;) {
    got = read(ends[0], part.data(), part.size());
    if (got > 0) said.append(part.data(), static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? said : StrCat("the child ended with status ", status, "; ", said);
}

// What this process mounts from here on is seen by it alone. False if it may not.
inline bool EnterOwnMounts() {
  const std::string maps[][2] = {{"uid_map", StrCat("0 ", getuid(), " 1")},
                                 {"gid_map", StrCat("0 ", getgid(), " 1")}};
  if (unshare(CLONE_NEWNS) != 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    std::ofstream("/proc/self/setgroups") << "deny";
    for (const auto& map : maps)
      std::ofstream("/proc/self/" + map[0]) << map[1];
  }
  return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

}  // namespace weft::test
