#include "comm/transport/ucx/load_ucx.h"

#include <array>
#include <csignal>
#include <string_view>

#include <dlfcn.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/mutex.h"
#include "base/status.h"
#include "fmt/format.h"

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

// The module beside the file that this code is in, or in the directory of libraries beside that of a program; "" if there is none.
std::string FileBesideThis() {
  Dl_info here = {};
  if (dladdr(reinterpret_cast<const void*>(&FileBesideThis), &here) == 0 ||
      here.dli_fname == nullptr) {
    return "";
  }
  const std::string_view own = here.dli_fname;
  const size_t slash = own.rfind('/');
  if (slash == std::string_view::npos) return "";
  for (const char* const directory : {"", "../lib/"}) {
    std::string file = fmt::format("{}/{}{}", own.substr(0, slash), directory, kUcxModuleFile);
    if (access(file.c_str(), F_OK) == 0) return file;
  }
  return "";
}

absl::Status CannotUse(std::string_view why) {
  return MakeError(WEFT_UNSUPPORTED, fmt::format("UCX cannot be used: {}", why));
}

const char* LoaderError() {
  const char* const error = dlerror();
  return error != nullptr ? error : "unknown error";
}

using ModuleEntry = const UcxModule* (*)();

// A module of another build may call the type of its function otherwise, which is for the version to show.
#ifdef __clang__
__attribute__((no_sanitize("function")))
#endif
const UcxModule*
TableOf(ModuleEntry entry) {
  return entry();
}

}  // namespace

absl::StatusOr<const UcxModule*> LoadUcxModuleFrom(const std::string& file) {
  // It would get a second C library.
  if (getauxval(AT_BASE) == 0) {
    return CannotUse("this program is linked statically, and such programs open no libraries");
  }
  static Mutex one_at_a_time;
  MutexLock lock(one_at_a_time);
  const SignalHandlers handlers;
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  handlers.PutBack();
  if (library == nullptr) {
    return CannotUse(fmt::format("the module {} could not be loaded: {}", file, LoaderError()));
  }
  const auto entry = reinterpret_cast<ModuleEntry>(dlsym(library, kUcxModuleEntry));
  if (entry == nullptr) {
    return CannotUse(fmt::format("{} is no module of weft's: {}", file, LoaderError()));
  }
  const UcxModule* const module = TableOf(entry);
  if (module->version != kUcxModuleVersion || module->table_bytes != sizeof(UcxModule)) {
    return CannotUse(fmt::format(
        "the module {} is of another build of weft: its version is {}, and {} is needed; "
        "install both from one build",
        file, module->version, kUcxModuleVersion));
  }
  return module;
}

absl::StatusOr<const UcxModule*> LoadUcxModule() {
  const std::string beside = FileBesideThis();
  return LoadUcxModuleFrom(beside.empty() ? kUcxModuleFile : beside);
}

}  // namespace weft
