#include "comm/device/driver/driver.h"

#include <atomic>
#include <memory>
#include <utility>

#include <dlfcn.h>
#include <unistd.h>

#include "base/mutex.h"
#include "base/options.h"
#include "base/shared_library.h"
#include "base/status.h"
#include "comm/group/fork.h"

namespace weft {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";
constexpr const char* kProcAddress = "cuGetProcAddress_v2";

using GetProcAddress = cuda::Result (*)(const char* name, void** function, int32_t version,
                                        uint64_t flags, int32_t* found);

struct OpenedDriver {
  Driver driver;
  pid_t process = 0;
};

Mutex open_mutex;
std::atomic<const OpenedDriver*> opened = nullptr;

// Threads that hold the mutex or wait for it, in the process of a ForkGeneration(). A child of it that was forked meanwhile has the
// mutex locked for ever, and a driver that has begun to start.
struct Openers {
  uint32_t generation = 0;
  uint32_t count = 0;
};

std::atomic<Openers> openers = Openers{};

// False in such a child.
bool EnterOpening() {
  const uint32_t here = ForkGeneration();
  Openers seen = openers.load(std::memory_order_acquire);
  do {
    if (seen.count > 0 && seen.generation != here) return false;
  } while (!openers.compare_exchange_weak(seen, {here, seen.count + 1}, std::memory_order_acq_rel));
  return true;
}

void LeaveOpening() {
  Openers seen = openers.load(std::memory_order_acquire);
  while (!openers.compare_exchange_weak(seen, {seen.generation, seen.count - 1},
                                        std::memory_order_acq_rel)) {
  }
}

absl::Status CannotUse(std::string_view why) {
  return MakeError(WEFT_UNSUPPORTED, StrCat("CUDA devices cannot be used: ", why));
}

std::string VersionText(int32_t version) {
  return StrCat(version / 1000, ".", version % 1000 / 10);
}

// Sets the pointer `function`, of any type, to the driver's function.
template <typename Pointer>
absl::Status Find(GetProcAddress get, const std::string& file, const char* name, int32_t version,
                  Pointer* function) {
  void* address = nullptr;
  int32_t found = 0;
  const cuda::Result result = get(name, &address, version, cuda::kProcAddressLegacyStream, &found);
  if (result != cuda::kSuccess || address == nullptr) {
    const bool old = found == cuda::kProcAddressVersionTooLow;
    return CannotUse(StrCat(file, " has no function ", name, " of CUDA ", VersionText(version),
                            old ? " (it has a later one)" : "",
                            "; weft needs the driver of CUDA 12.0 or later"));
  }
  *function = reinterpret_cast<Pointer>(address);
  return absl::OkStatus();
}

absl::Status FindAll(GetProcAddress get, Driver* driver) {
#define WEFT_CUDA_FIND(name, version, arguments) \
  WEFT_RETURN_IF_ERROR(Find(get, driver->file, "cu" #name, version, &driver->name));
  WEFT_CUDA_FUNCTIONS(WEFT_CUDA_FIND)
#undef WEFT_CUDA_FIND
  return absl::OkStatus();
}

std::string LibraryFile() {
  return GetOptions().cuda_library.empty() ? kLibrary : GetOptions().cuda_library;
}

absl::StatusOr<std::unique_ptr<OpenedDriver>> Open() {
  auto made = std::make_unique<OpenedDriver>();
  Driver& driver = made->driver;
  driver.file = LibraryFile();
  const absl::StatusOr<void*> library = OpenLibrary(driver.file);
  if (!library.ok()) {
    return CannotUse(StrCat("CUDA's driver, ", driver.file, ", was looked for ",
                            GetOptions().cuda_library.empty() ? "where the system's loader looks"
                                                              : "where WEFT_CUDA_LIBRARY says",
                            ", and could not be loaded: ", library.status().message()));
  }
  const auto get = reinterpret_cast<GetProcAddress>(dlsym(*library, kProcAddress));
  if (get == nullptr) {
    return CannotUse(StrCat(driver.file, " has no function ", kProcAddress,
                            "; weft needs the driver of CUDA 12.0 or later"));
  }
  WEFT_RETURN_IF_ERROR(FindAll(get, &driver));
  if (const cuda::Result result = driver.Init(0); result != cuda::kSuccess) {
    const absl::Status failure = driver.Failure(
        result, -1, StrCat("CUDA's driver, ", driver.file, ", did not start: cuInit"));
    // No device, or a driver that does not fit its kernel module: a machine that cannot, not a device that failed.
    return MakeError(WEFT_UNSUPPORTED, FieldsOf(failure), FromAbsl(failure.message()));
  }
  WEFT_RETURN_IF_ERROR(
      driver.Check(driver.DriverGetVersion(&driver.version), -1, "cuDriverGetVersion"));
  made->process = getpid();
  return made;
}

absl::StatusOr<const Driver*> OfThisProcess(const OpenedDriver& of) {
  if (of.process != getpid()) {
    return MakeError(WEFT_FORKED,
                     StrCat("CUDA was opened by process ", of.process,
                            ", which this one was forked from, and does not work in forked "
                            "children; start processes that use devices by exec (spawn)"));
  }
  return &of.driver;
}

absl::StatusOr<const Driver*> OpenOnce() {
  MutexLock lock(open_mutex);
  if (const OpenedDriver* const found = opened.load(std::memory_order_acquire)) {
    return OfThisProcess(*found);
  }
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<OpenedDriver> made, Open());
  const OpenedDriver* const kept = made.release();  // for the process's life
  opened.store(kept, std::memory_order_release);
  return &kept->driver;
}

weft_result_t WeftResult(cuda::Result result) {
  switch (result) {
    case cuda::kOutOfMemory:
      return WEFT_OUT_OF_MEMORY;
    case cuda::kNoDevice:
    case cuda::kNoBinaryForGpu:
    case cuda::kNotSupported:
      return WEFT_UNSUPPORTED;
    default:
      return WEFT_DEVICE_ERROR;
  }
}

}  // namespace

absl::Status Driver::Failure(cuda::Result result, int32_t device, std::string_view what) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (GetErrorName(result, &name) != cuda::kSuccess || name == nullptr) name = "an unknown error";
  if (GetErrorString(result, &text) != cuda::kSuccess || text == nullptr) text = "no description";
  return MakeError(WeftResult(result), {.device = device, .device_code = result},
                   StrCat(what, device < 0 ? std::string() : StrCat(" on device ", device), ": ",
                          name, " (", result, "): ", text));
}

absl::StatusOr<const Driver*> OpenDriver() {
  if (const OpenedDriver* const found = opened.load(std::memory_order_acquire)) {
    return OfThisProcess(*found);
  }
  if (!EnterOpening()) {
    return MakeError(WEFT_FORKED,
                     "this process was forked while its parent was opening CUDA's driver, which "
                     "does not work in it; start processes that use devices by exec (spawn)");
  }
  absl::StatusOr<const Driver*> driver = OpenOnce();
  LeaveOpening();
  return driver;
}

const Driver* FindOpenDriver() {
  const OpenedDriver* const found = opened.load(std::memory_order_acquire);
  return found != nullptr && found->process == getpid() ? &found->driver : nullptr;
}

bool IsDriverLoaded() {
  return FindOpenDriver() != nullptr || IsLibraryLoaded(LibraryFile());
}

}  // namespace weft
