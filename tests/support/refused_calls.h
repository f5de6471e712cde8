// A seccomp filter, as containers have them: the system calls that it lists fail from now on in this thread and all that
// it starts. It cannot be taken back, so it is for a forked child.
//
//   if (fork() == 0) { RefuseCalls({SYS_memfd_create}, EPERM); ... _exit(0); }
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace weft::test {

// "" or what is wrong.
std::string RefuseCalls(std::initializer_list<int> numbers, int error_number);

// The same for one call, where the low half of its `argument` (from 0) is more than `most`.
std::string RefuseCallsAbove(int number, int argument, uint32_t most, int error_number);
// With exactly `value` there.
std::string RefuseCallsWith(int number, int argument, uint32_t value, int error_number);

}  // namespace weft::test
