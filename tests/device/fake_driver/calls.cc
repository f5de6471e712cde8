#include "tests/device/fake_driver/calls.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <numeric>

#include <unistd.h>

#include "tests/device/fake_driver/schedule.h"
#include "tests/device/fake_driver/streams.h"

namespace weft::fake_cuda {
namespace {

enum FunctionIndex : int {

#define WEFT_FAKE_INDEX(name, version, arguments) k##name,
  WEFT_CUDA_FUNCTIONS(WEFT_FAKE_INDEX)
#undef WEFT_FAKE_INDEX
      kFunctions
};

struct FunctionFacts {
  const char* name;
  int32_t version;
};

constexpr FunctionFacts kFacts[] = {
#define WEFT_FAKE_FACTS(name, version, arguments) {"cu" #name, version},
    WEFT_CUDA_FUNCTIONS(WEFT_FAKE_FACTS)
#undef WEFT_FAKE_FACTS
};

std::array<uint64_t, kFunctions> calls;  // behind the world's lock

thread_local bool in_host_function = false;

// Functions that a process may call before cuInit.
bool WorksUninitialized(int index) {
  return index == kInit || index == kDriverGetVersion || index == kGetErrorName ||
         index == kGetErrorString;
}

// Those that give something back do so even if they fail: "may also return error codes from previous, asynchronous launches".
bool GivesBack(int index) {
  constexpr int kGivingBack[] = {
      kDevicePrimaryCtxRelease,
      kCtxPopCurrent,
      kMemFree,
      kMemFreeHost,
      kMemHostUnregister,
      kMemRelease,
      kMemUnmap,
      kMemAddressFree,
      kStreamDestroy,
      kEventDestroy,
      kIpcCloseMemHandle,
      kModuleUnload,
      kThreadExchangeStreamCaptureMode,
  };
  for (const int one : kGivingBack) {
    if (one == index) return true;
  }
  return false;
}

// Those that CUDA calls potentially unsafe: they wait, or may wait, for work that a capture only notes.
bool SpoilsCaptures(int index) {
  constexpr int kSpoiling[] = {
      kCtxSynchronize,   kMemAlloc,          kMemFree,           kMemHostAlloc, kMemFreeHost,
      kMemHostRegister,  kMemHostUnregister, kMemCreate,         kMemRelease,   kMemMap,
      kMemUnmap,         kMemSetAccess,      kStreamSynchronize, kStreamQuery,  kEventQuery,
      kEventSynchronize, kModuleLoadData,    kModuleUnload,
  };
  return std::find(std::begin(kSpoiling), std::end(kSpoiling), index) != std::end(kSpoiling);
}

bool IsCapturing(const World& world) {
  return std::any_of(world.streams.begin(), world.streams.end(),
                     [](const auto& stream) { return stream.second->is_capturing; });
}

Result PlannedFailure(Plan& plan, int index) {
  if (plan.fail_in == 0 || (plan.fail_function >= 0 && plan.fail_function != index))
    return kSuccess;
  if (--plan.fail_in != 0) return kSuccess;
  plan.failed = kFacts[index].name;
  return plan.fail_code;
}

template <typename Function>
Result Enter(int index, Function function) {
  if (in_host_function) return kNotPermitted;
  World& world = TheWorld();
  const int process = world.process;
  if (process != 0 && process != getpid()) return kNotInitialized;
  if (index == kGetErrorName || index == kGetErrorString) return function();
  const std::lock_guard lock(world.mutex);
  if (world.ended) return kDeinitialized;
  ++calls[static_cast<size_t>(index)];
  world.last_call_ns = NowNs();
  const Result failure = PlannedFailure(world.plan, index);
  if (failure != kSuccess && !GivesBack(index)) return failure;
  if (process == 0 && !WorksUninitialized(index)) return kNotInitialized;
  if (SpoilsCaptures(index) && !IsRelaxed() && IsCapturing(world)) {
    world.capture_is_spoiled = true;
    return kCaptureUnsupported;
  }
  const Result result = function();
  return failure != kSuccess ? failure : result;
}

template <int kIndex, auto kFunction>
struct EntryPoint;

template <int kIndex, typename... Arguments, Result (*kFunction)(Arguments...)>
struct EntryPoint<kIndex, kFunction> {
  static Result Call(Arguments... arguments) {
    return Enter(kIndex, [&] { return kFunction(arguments...); });
  }
};

void* const kEntryPoints[] = {
#define WEFT_FAKE_ENTRY(name, version, arguments) \
  reinterpret_cast<void*>(&EntryPoint<k##name, &fake_cuda::name>::Call),
    WEFT_CUDA_FUNCTIONS(WEFT_FAKE_ENTRY)
#undef WEFT_FAKE_ENTRY
};

struct ErrorFacts {
  Result code;
  const char* name;
  const char* text;
};

constexpr ErrorFacts kErrors[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {kDeinitialized, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kMapFailed, "CUDA_ERROR_MAP_FAILED", "mapping of buffer object failed"},
    {kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {kEccUncorrectable, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {kPeerAccessUnsupported, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {kLaunchOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {kPeerAccessAlreadyEnabled, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
     "peer access is already enabled"},
    {kHostMemoryAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {kHostMemoryNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {kNotPermitted, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {kCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {kUnknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const ErrorFacts* FindError(Result code) {
  for (const ErrorFacts& one : kErrors) {
    if (one.code == code) return &one;
  }
  return nullptr;
}

constexpr int32_t kDriverVersion = 13000;

}  // namespace

int FindFunction(const char* name) {
  for (int i = 0; i < kFunctions; ++i) {
    if (std::strcmp(kFacts[i].name, name) == 0) return i;
  }
  return -1;
}

uint64_t CountCalls(const char* name) {
  if (name == nullptr) return std::accumulate(calls.begin(), calls.end(), uint64_t{0});
  const int index = FindFunction(name);
  return index < 0 ? 0 : calls[static_cast<size_t>(index)];
}

void ForgetCalls() {
  calls = {};
}

InHostFunction::InHostFunction() {
  in_host_function = true;
}

InHostFunction::~InHostFunction() {
  in_host_function = false;
}

Result DriverGetVersion(int32_t* version) {
  if (version == nullptr) return kInvalidValue;
  *version = kDriverVersion;
  return kSuccess;
}

Result GetErrorName(Result error, const char** name) {
  const ErrorFacts* const found = FindError(error);
  *name = found == nullptr ? nullptr : found->name;
  return found == nullptr ? kInvalidValue : kSuccess;
}

Result GetErrorString(Result error, const char** text) {
  const ErrorFacts* const found = FindError(error);
  *text = found == nullptr ? nullptr : found->text;
  return found == nullptr ? kInvalidValue : kSuccess;
}

}  // namespace weft::fake_cuda

// NOLINTNEXTLINE(readability-identifier-naming): CUDA's name
extern "C" __attribute__((visibility("default"))) weft::cuda::Result cuGetProcAddress_v2(
    const char* name, void** function, int32_t version, uint64_t flags, int32_t* found) {
  using namespace weft::fake_cuda;  // NOLINT(google-build-using-namespace)
  if (name == nullptr || function == nullptr || version > kDriverVersion ||
      flags != kProcAddressLegacyStream)
    return kInvalidValue;
  const int index = TheWorld().hidden == name ? -1 : FindFunction(name);
  const bool is_later = index >= 0 && version < kFacts[index].version;
  *function = index < 0 || is_later ? nullptr : kEntryPoints[index];
  if (found != nullptr)
    *found = index < 0 ? kProcAddressNotFound : is_later ? kProcAddressVersionTooLow : 0;
  return kSuccess;
}
