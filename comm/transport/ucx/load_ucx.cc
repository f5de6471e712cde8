#include "comm/transport/ucx/load_ucx.h"

#include <array>
#include <csignal>

#include "base/module.h"
#include "base/mutex.h"

namespace weft {
namespace {

// UCX prints a trace when one of these comes, in place of the program's own handler, from when it is loaded on.
constexpr std::array kTakenSignals = {SIGILL, SIGSEGV, SIGBUS, SIGFPE};

class SignalHandlers {
 public:
  SignalHandlers() {
    for (size_t i = 0; i < kTakenSignals.size(); ++i)
      (void)sigaction(kTakenSignals[i], nullptr, &actions_[i]);
  }

  void PutBack() const {
    for (size_t i = 0; i < kTakenSignals.size(); ++i)
      (void)sigaction(kTakenSignals[i], &actions_[i], nullptr);
  }

 private:
  std::array<struct sigaction, kTakenSignals.size()> actions_ = {};
};

constexpr ModuleName kUcxModule = {"UCX", "libweft_ucx.so", "weft_ucx_module", kUcxModuleVersion,
                                   sizeof(UcxModule)};

// `open` returns the table.
template <typename Open>
absl::StatusOr<const UcxModule*> KeepingHandlers(Open open) {
  static Mutex one_at_a_time;
  MutexLock lock(one_at_a_time);
  const SignalHandlers handlers;
  const absl::StatusOr<const ModuleTable*> table = open();
  handlers.PutBack();
  if (!table.ok()) return table.status();
  return reinterpret_cast<const UcxModule*>(*table);
}

}  // namespace

absl::StatusOr<const UcxModule*> LoadUcxModuleFrom(const std::string& file) {
  return KeepingHandlers([&file] { return OpenModuleFrom(kUcxModule, file); });
}

absl::StatusOr<const UcxModule*> LoadUcxModule() {
  return KeepingHandlers([] { return OpenModule(kUcxModule); });
}

}  // namespace weft
