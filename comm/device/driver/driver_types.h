// What weft uses of CUDA's driver interface, declared by weft: where it is compiled nothing of CUDA has to be there. Names are CUDA's
// without their prefix; tests/device/driver_types_check.cc compares sizes, places and numbers with cuda.h where there is one.
//
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::cuda {

// CUresult. Of the numbers only those that weft acts on have names.
using Result = int32_t;
inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidValue = 1;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNotInitialized = 3;
inline constexpr Result kDeinitialized = 4;
inline constexpr Result kNoDevice = 100;
inline constexpr Result kInvalidDevice = 101;
inline constexpr Result kNoBinaryForGpu = 209;
inline constexpr Result kInvalidContext = 201;
inline constexpr Result kOperatingSystem = 304;
inline constexpr Result kNotFound = 500;
inline constexpr Result kNotReady = 600;
inline constexpr Result kHostMemoryAlreadyRegistered = 712;
inline constexpr Result kNotPermitted = 800;
inline constexpr Result kNotSupported = 801;
inline constexpr Result kCaptureUnsupported = 900;
inline constexpr Result kCaptureImplicit = 906;

using DeviceHandle = int32_t;         // CUdevice
using DevicePointer = uint64_t;       // CUdeviceptr
using AllocationHandle = uint64_t;    // CUmemGenericAllocationHandle
using Context = struct ContextBody*;  // CUcontext
using Stream = struct StreamBody*;    // CUstream; nullptr is the legacy stream
using Event = struct EventBody*;      // CUevent
using Module = struct ModuleBody*;    // CUmodule
using Function = struct FunctionBody*;
using HostFunction = void (*)(void* user);

struct Uuid {
  char bytes[16];
};

struct IpcMemoryHandle {  // CUipcMemHandle
  char bytes[64];
};

// CUdevice_attribute
enum class DeviceAttribute : int32_t {
  kMultiprocessorCount = 16,
  kIntegrated = 18,
  kComputeMode = 20,
  kEccEnabled = 32,
  kMemoryClockRate = 36,  // kHz
  kMemoryBusWidth = 37,   // bits
  kL2CacheBytes = 38,
  kUnifiedAddressing = 41,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kComputePreemption = 90,
  kHostPointerForRegisteredMemory = 91,
  kSharedBytesPerBlockMax = 97,  // that a kernel may ask for
  kHostRegister = 99,
  kVirtualMemory = 102,
  kPosixFileDescriptors = 103,
  kStreamMemOps64Bit = 122,
  kStreamWaitValueNor = 123,
};

// CUpointer_attribute
enum class PointerAttribute : int32_t {
  kContext = 1,
  kMemoryType = 2,
  kDevicePointer = 3,
  kHostPointer = 4,
  kIsManaged = 8,
  kDeviceOrdinal = 9,
  kIsIpcCapable = 10,
  kRangeStart = 11,
  kRangeBytes = 12,
  kMapped = 13,
  kAllowedHandleTypes = 14,
};
inline constexpr uint32_t kMemoryTypeHost = 1;    // CU_MEMORYTYPE_HOST
inline constexpr uint32_t kMemoryTypeDevice = 2;  // CU_MEMORYTYPE_DEVICE

// CUfunction_attribute
enum class FunctionAttribute : int32_t {
  kMaxThreadsPerBlock = 0,
  kSharedBytes = 1,
  kLocalBytes = 3,
  kRegisters = 4,
  kMaxDynamicSharedBytes = 8,
};

inline constexpr int32_t kLocationDevice = 1;       // CU_MEM_LOCATION_TYPE_DEVICE
inline constexpr int32_t kAllocationPinned = 1;     // CU_MEM_ALLOCATION_TYPE_PINNED
inline constexpr int32_t kPosixFileDescriptor = 1;  // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
inline constexpr int32_t kGranularityMinimum = 0;   // CU_MEM_ALLOC_GRANULARITY_MINIMUM
inline constexpr int32_t kAccessReadWrite = 3;      // CU_MEM_ACCESS_FLAGS_PROT_READWRITE

struct MemoryLocation {  // CUmemLocation
  int32_t type;
  int32_t id;  // of a device: its ordinal
};

struct AllocationProperties {  // CUmemAllocationProp
  int32_t type;
  int32_t requested_handle_types;
  MemoryLocation location;
  void* win32_handle_meta_data;
  uint8_t compression_type;
  uint8_t gpu_direct_rdma_capable;
  uint16_t usage;
  uint8_t reserved[4];
};

struct AccessDescription {  // CUmemAccessDesc
  MemoryLocation location;
  int32_t flags;
};

// CUstreamBatchMemOpParams
struct MemOpValue {
  int32_t operation;
  DevicePointer address;
  uint64_t value;
  uint32_t flags;
  DevicePointer alias;
};

union MemOp {
  int32_t operation;
  MemOpValue value;  // of waits and writes
  uint64_t pad[6];
};

inline constexpr int32_t kMemOpWait32 = 1;
inline constexpr int32_t kMemOpWrite32 = 2;
inline constexpr uint32_t kWaitGreaterOrEqual = 0;  // as signed differences
inline constexpr uint32_t kWaitEqual = 1;

inline constexpr uint32_t kStreamNonBlocking = 1;
inline constexpr uint32_t kEventBlockingSync = 1;
inline constexpr uint32_t kEventDisableTiming = 2;
inline constexpr uint32_t kHostAllocPortable = 1;
inline constexpr uint32_t kHostAllocDeviceMap = 2;
inline constexpr uint32_t kHostRegisterPortable = 1;
inline constexpr uint32_t kHostRegisterDeviceMap = 2;
inline constexpr uint32_t kIpcLazyEnablePeerAccess = 1;
inline constexpr int32_t kCaptureNone = 0;     // CU_STREAM_CAPTURE_STATUS_NONE
inline constexpr int32_t kCaptureRelaxed = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED

// cuGetProcAddress
inline constexpr uint64_t kProcAddressLegacyStream = 1;
inline constexpr int32_t kProcAddressNotFound = 1;
inline constexpr int32_t kProcAddressVersionTooLow = 2;

}  // namespace weft::cuda
