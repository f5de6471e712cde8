#include "tests/support/refused_calls.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

namespace weft::test {

namespace {

constexpr sock_filter kLoadNumber = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
constexpr sock_filter kAllow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);

sock_filter Fail(int error_number) {
  return BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error_number));
}

std::string Install(std::vector<sock_filter> program) {
  const sock_fprog filter = {static_cast<unsigned short>(program.size()), program.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0) {
    return "";
  }
  return std::string("no seccomp filter: ") + std::strerror(errno);
}

}  // namespace

std::string RefuseCalls(std::initializer_list<int> numbers, int error_number) {
  std::vector<sock_filter> program = {kLoadNumber};
  for (const int number : numbers) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1));
    program.push_back(Fail(error_number));
  }
  program.push_back(kAllow);
  return Install(std::move(program));
}

namespace {

// Calls whose argument compares so with `value`.
std::string RefuseComparing(int number, int argument, uint16_t comparison, uint32_t value,
                            int error_number) {
  const auto offset = static_cast<uint32_t>(offsetof(seccomp_data, args) + 8 * argument);
  return Install({kLoadNumber,
                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 3),
                  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset),  // little endian: the low half
                  BPF_JUMP(static_cast<uint16_t>(BPF_JMP | comparison | BPF_K), value, 0, 1),
                  Fail(error_number), kAllow});
}

}  // namespace

std::string RefuseCallsAbove(int number, int argument, uint32_t most, int error_number) {
  return RefuseComparing(number, argument, BPF_JGT, most, error_number);
}

std::string RefuseCallsWith(int number, int argument, uint32_t value, int error_number) {
  return RefuseComparing(number, argument, BPF_JEQ, value, error_number);
}

}  // namespace weft::test
