// Abseil's two objects that Debian's archives hold in a form that no shared library can take.
//
// The archives are compiled for executables (-fPIE). A shared library may contain such code, except accesses to
// thread-local variables that the object itself defines (R_X86_64_TPOFF32). Those are in cordz_functions.cc (Cord's
// sampling profiler, off by default) and sysinfo.cc (the thread id cache), which absl::Status pulls in. libweft.so
// links the definitions below instead, so that it needs no Abseil at run time: the same interface, from Abseil's own
// headers, without sampling and without cache. Tests link the original ones.
//
// Thread-safety: as the originals, any thread.
#include <thread>

#include <unistd.h>

#include "absl/base/internal/sysinfo.h"
#include "absl/strings/internal/cordz_functions.h"

namespace absl {
ABSL_NAMESPACE_BEGIN

namespace cord_internal {

// The decrement in cordz_should_profile() reaches 1 after this many Cords of one thread, and asks again.
constexpr int64_t kNever = int64_t{1} << 60;

ABSL_CONST_INIT thread_local int64_t cordz_next_sample = kNever;

bool cordz_should_profile_slow() {
  cordz_next_sample = kNever;
  return false;
}

int32_t get_cordz_mean_interval() {
  return 0;
}

void set_cordz_mean_interval(int32_t) {}

void cordz_set_next_sample_for_testing(int64_t next_sample) {
  cordz_next_sample = next_sample;
}

}  // namespace cord_internal

namespace base_internal {

pid_t GetTID() {
  return gettid();
}

pid_t GetCachedTID() {
  return gettid();
}

int NumCPUs() {
  return static_cast<int>(std::thread::hardware_concurrency());
}

// Unknown; its one user scales cycle counts, which weft does not do.
double NominalCPUFrequency() {
  return 1.0;
}

}  // namespace base_internal

ABSL_NAMESPACE_END
}  // namespace absl
