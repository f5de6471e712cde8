#include "tests/support/leak_check.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include <unistd.h>

namespace weft::test {
namespace {

namespace fs = std::filesystem;

// ThreadSanitizer starts a program of its own to name functions, when it first compares a report with tests/support/tsan.supp, and
// keeps pipes to it.
#ifdef __has_feature
constexpr bool kSanitizerOpensPipes = __has_feature(thread_sanitizer);
#else
constexpr bool kSanitizerOpensPipes = false;
#endif

std::multiset<std::string> Descriptors() {
  std::multiset<std::string> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/fd", error)) {
    const std::string target = fs::read_symlink(entry.path(), error).string();
    // The directory that is being listed.
    if (error || target.find("/fd") != std::string::npos) continue;
    if (kSanitizerOpensPipes && target.rfind("pipe:", 0) == 0) continue;
    found.insert(target);
  }
  return found;
}

std::multiset<std::string> Mappings() {
  std::multiset<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t slash = line.find('/');
    if (slash == std::string::npos) continue;
    const std::string path = line.substr(slash);
    // Libraries may be loaded on first use and stay.
    if (path.rfind("/memfd:", 0) == 0 || path.rfind("/dev/shm/", 0) == 0) found.insert(path);
  }
  return found;
}

// A thread that has been joined may still be listed for a moment: the kernel wakes who joins it before it
// takes it off the list. The kernel's own workers for io_uring are listed, too, for seconds after their last work.
bool IsExitingOrTheKernels(const fs::path& task) {
  constexpr unsigned long kExiting = 0x4;   // PF_EXITING
  constexpr unsigned long kKernels = 0x10;  // PF_IO_WORKER
  std::ifstream file(task / "stat");
  std::string line;
  if (!std::getline(file, line)) return true;
  // What follows the name in parentheses: state, parent, group, session, terminal, its group, flags.
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string skipped;
  unsigned long flags = 0;
  for (int i = 0; i < 6; ++i)
    fields >> skipped;
  return (fields >> flags) && (flags & (kExiting | kKernels)) != 0;
}

int Threads() {
  int threads = 0;
  for (const fs::directory_entry& task : fs::directory_iterator("/proc/self/task"))
    threads += IsExitingOrTheKernels(task.path()) ? 0 : 1;
  return threads;
}

void Report(const std::multiset<std::string>& now, const std::multiset<std::string>& before,
            const char* what, std::ostream& out) {
  std::multiset<std::string> more;
  std::set_difference(now.begin(), now.end(), before.begin(), before.end(),
                      std::inserter(more, more.end()));
  for (const std::string& item : more)
    out << what << ' ' << item << '\n';
}

}  // namespace

Holdings Holdings::Now() {
  // A sanitizer has a thread of its own once the program has had one: let it come before we count.
  std::thread([] {}).join();
  Holdings now;
  now.descriptors = Descriptors();
  now.mappings = Mappings();
  now.threads = Threads();
  return now;
}

std::string Holdings::Since(const Holdings& before) const {
  std::ostringstream out;
  Report(descriptors, before.descriptors, "descriptor", out);
  Report(mappings, before.mappings, "mapping", out);
  if (threads > before.threads) out << threads - before.threads << " threads\n";
  return out.str();
}

unsigned long long TestSeed(unsigned long long standard) {
  const char* const text = std::getenv("WEFT_TEST_SEED");
  return text == nullptr ? standard : std::strtoull(text, nullptr, 10);
}

}  // namespace weft::test
