// Waits of processes, for tests.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/text.h"
#include "comm/agent/wait_cycle.h"

namespace weft::test {

inline ProcessWait WaitOf(int32_t pid, std::initializer_list<int32_t> awaited) {
  ProcessWait wait{};
  wait.process.pid = pid;
  wait.version = static_cast<uint64_t>(pid) * 100;
  for (const int32_t other : awaited)
    wait.awaited[wait.awaited_count++].pid = other;
  CopyText(wait.call, "call of " + std::to_string(pid));
  return wait;
}

}  // namespace weft::test
