// The driver's types as weft declares them, compared with cuda.h: compiling this is the test.
#include <cstddef>
#include <tuple>
#include <type_traits>

#include <cuda.h>

#include "comm/device/driver/driver_functions.h"
#include "tests/device/fake_driver/codes.h"

namespace weft {
namespace {

namespace mine = weft::cuda;

// Of two types as a call passes them: pointers, or numbers of one size and kind, or structs of one size.
template <typename Mine, typename Theirs>
constexpr bool SamePassing() {
  if constexpr (std::is_pointer_v<Mine> || std::is_pointer_v<Theirs>) {
    return std::is_pointer_v<Mine> && std::is_pointer_v<Theirs>;
  } else if constexpr (std::is_class_v<Mine> || std::is_class_v<Theirs>) {
    return std::is_class_v<Mine> && std::is_class_v<Theirs> && sizeof(Mine) == sizeof(Theirs);
  } else {
    return sizeof(Mine) == sizeof(Theirs);
  }
}

// What a pointer of the other's points to has the size of mine, unless it is void or unknown.
template <typename Type, typename = void>
struct PointeeBytes {
  static constexpr size_t kBytes = 0;
};

template <typename Type>
struct PointeeBytes<Type, std::void_t<decltype(sizeof(std::remove_pointer_t<Type>))>> {
  static constexpr size_t kBytes = [] {
    using Pointee = std::remove_pointer_t<Type>;
    if constexpr (std::is_void_v<Pointee> || std::is_function_v<Pointee>) {
      return size_t{0};
    } else {
      return sizeof(Pointee);
    }
  }();
};

template <typename Mine, typename Theirs>
constexpr bool SameArgument() {
  if (!SamePassing<Mine, Theirs>()) return false;
  if constexpr (std::is_pointer_v<Mine>) {
    constexpr size_t kOurs = PointeeBytes<Mine>::kBytes;
    constexpr size_t kOthers = PointeeBytes<Theirs>::kBytes;
    return kOurs == 0 || kOthers == 0 || kOurs == kOthers;
  }
  return true;
}

template <typename Mine, typename Theirs>
struct SameFunction : std::false_type {};

template <typename... Mine, typename... Theirs>
struct SameFunction<mine::Result (*)(Mine...), CUresult (*)(Theirs...)> {
  static constexpr bool kSame = [] {
    if constexpr (sizeof...(Mine) != sizeof...(Theirs)) {
      return false;
    } else {
      return (SameArgument<Mine, Theirs>() && ...);
    }
  }();
};

// cuda.h renames functions to their newest forms by macros, so a name becomes one only where it is written out.
#define WEFT_COMPARE(name, version, arguments) \
  static_assert(SameFunction<mine::Result(*) arguments, decltype(&cu##name)>::kSame, "cu" #name);
WEFT_CUDA_FUNCTIONS(WEFT_COMPARE)

static_assert(sizeof(mine::Result) == sizeof(CUresult));
static_assert(mine::kSuccess == CUDA_SUCCESS && mine::kInvalidValue == CUDA_ERROR_INVALID_VALUE);
static_assert(mine::kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(mine::kNotInitialized == CUDA_ERROR_NOT_INITIALIZED);
static_assert(mine::kDeinitialized == CUDA_ERROR_DEINITIALIZED);
static_assert(mine::kNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(mine::kInvalidDevice == CUDA_ERROR_INVALID_DEVICE);
static_assert(mine::kNoBinaryForGpu == CUDA_ERROR_NO_BINARY_FOR_GPU);
static_assert(mine::kInvalidContext == CUDA_ERROR_INVALID_CONTEXT);
static_assert(mine::kOperatingSystem == CUDA_ERROR_OPERATING_SYSTEM);
static_assert(mine::kNotFound == CUDA_ERROR_NOT_FOUND);
static_assert(mine::kNotReady == CUDA_ERROR_NOT_READY);
static_assert(mine::kHostMemoryAlreadyRegistered == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
static_assert(mine::kNotPermitted == CUDA_ERROR_NOT_PERMITTED);
static_assert(mine::kCaptureUnsupported == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
static_assert(mine::kCaptureImplicit == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
static_assert(mine::kNotSupported == CUDA_ERROR_NOT_SUPPORTED);

// What the fake driver returns besides.
static_assert(fake_cuda::kMapFailed == CUDA_ERROR_MAP_FAILED);
static_assert(fake_cuda::kEccUncorrectable == CUDA_ERROR_ECC_UNCORRECTABLE);
static_assert(fake_cuda::kPeerAccessUnsupported == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
static_assert(fake_cuda::kInvalidHandle == CUDA_ERROR_INVALID_HANDLE);
static_assert(fake_cuda::kIllegalAddress == CUDA_ERROR_ILLEGAL_ADDRESS);
static_assert(fake_cuda::kLaunchOutOfResources == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
static_assert(fake_cuda::kPeerAccessAlreadyEnabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
static_assert(fake_cuda::kHostMemoryNotRegistered == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
static_assert(fake_cuda::kLaunchFailed == CUDA_ERROR_LAUNCH_FAILED);
static_assert(fake_cuda::kUnknown == CUDA_ERROR_UNKNOWN);

#define WEFT_SAME_NUMBER(mine_name, theirs) \
  static_assert(static_cast<int64_t>(mine::mine_name) == static_cast<int64_t>(theirs), #theirs)
WEFT_SAME_NUMBER(DeviceAttribute::kMultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
WEFT_SAME_NUMBER(DeviceAttribute::kIntegrated, CU_DEVICE_ATTRIBUTE_INTEGRATED);
WEFT_SAME_NUMBER(DeviceAttribute::kComputeMode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
WEFT_SAME_NUMBER(DeviceAttribute::kEccEnabled, CU_DEVICE_ATTRIBUTE_ECC_ENABLED);
WEFT_SAME_NUMBER(DeviceAttribute::kSharedBytesPerBlockMax,
                 CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
WEFT_SAME_NUMBER(DeviceAttribute::kMemoryClockRate, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
WEFT_SAME_NUMBER(DeviceAttribute::kMemoryBusWidth, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
WEFT_SAME_NUMBER(DeviceAttribute::kL2CacheBytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
WEFT_SAME_NUMBER(DeviceAttribute::kUnifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
WEFT_SAME_NUMBER(DeviceAttribute::kComputeCapabilityMajor,
                 CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
WEFT_SAME_NUMBER(DeviceAttribute::kComputeCapabilityMinor,
                 CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
WEFT_SAME_NUMBER(DeviceAttribute::kComputePreemption,
                 CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED);
WEFT_SAME_NUMBER(DeviceAttribute::kHostPointerForRegisteredMemory,
                 CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
WEFT_SAME_NUMBER(DeviceAttribute::kHostRegister, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
WEFT_SAME_NUMBER(DeviceAttribute::kVirtualMemory,
                 CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
WEFT_SAME_NUMBER(DeviceAttribute::kPosixFileDescriptors,
                 CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
WEFT_SAME_NUMBER(DeviceAttribute::kStreamMemOps64Bit,
                 CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
WEFT_SAME_NUMBER(DeviceAttribute::kStreamWaitValueNor,
                 CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR);
WEFT_SAME_NUMBER(PointerAttribute::kContext, CU_POINTER_ATTRIBUTE_CONTEXT);
WEFT_SAME_NUMBER(PointerAttribute::kMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
WEFT_SAME_NUMBER(PointerAttribute::kDevicePointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
WEFT_SAME_NUMBER(PointerAttribute::kHostPointer, CU_POINTER_ATTRIBUTE_HOST_POINTER);
WEFT_SAME_NUMBER(PointerAttribute::kIsManaged, CU_POINTER_ATTRIBUTE_IS_MANAGED);
WEFT_SAME_NUMBER(PointerAttribute::kDeviceOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
WEFT_SAME_NUMBER(PointerAttribute::kIsIpcCapable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
WEFT_SAME_NUMBER(PointerAttribute::kRangeStart, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
WEFT_SAME_NUMBER(PointerAttribute::kRangeBytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
WEFT_SAME_NUMBER(PointerAttribute::kMapped, CU_POINTER_ATTRIBUTE_MAPPED);
WEFT_SAME_NUMBER(PointerAttribute::kAllowedHandleTypes, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);
WEFT_SAME_NUMBER(kMemoryTypeHost, CU_MEMORYTYPE_HOST);
WEFT_SAME_NUMBER(kMemoryTypeDevice, CU_MEMORYTYPE_DEVICE);
WEFT_SAME_NUMBER(FunctionAttribute::kMaxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
WEFT_SAME_NUMBER(FunctionAttribute::kSharedBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
WEFT_SAME_NUMBER(FunctionAttribute::kLocalBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
WEFT_SAME_NUMBER(FunctionAttribute::kRegisters, CU_FUNC_ATTRIBUTE_NUM_REGS);
WEFT_SAME_NUMBER(FunctionAttribute::kMaxDynamicSharedBytes,
                 CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
WEFT_SAME_NUMBER(kLocationDevice, CU_MEM_LOCATION_TYPE_DEVICE);
WEFT_SAME_NUMBER(kAllocationPinned, CU_MEM_ALLOCATION_TYPE_PINNED);
WEFT_SAME_NUMBER(kPosixFileDescriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
WEFT_SAME_NUMBER(kGranularityMinimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
WEFT_SAME_NUMBER(kAccessReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
WEFT_SAME_NUMBER(kMemOpWait32, CU_STREAM_MEM_OP_WAIT_VALUE_32);
WEFT_SAME_NUMBER(kMemOpWrite32, CU_STREAM_MEM_OP_WRITE_VALUE_32);
WEFT_SAME_NUMBER(kWaitGreaterOrEqual, CU_STREAM_WAIT_VALUE_GEQ);
WEFT_SAME_NUMBER(kWaitEqual, CU_STREAM_WAIT_VALUE_EQ);
WEFT_SAME_NUMBER(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
WEFT_SAME_NUMBER(kEventBlockingSync, CU_EVENT_BLOCKING_SYNC);
WEFT_SAME_NUMBER(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
WEFT_SAME_NUMBER(kHostAllocPortable, CU_MEMHOSTALLOC_PORTABLE);
WEFT_SAME_NUMBER(kHostAllocDeviceMap, CU_MEMHOSTALLOC_DEVICEMAP);
WEFT_SAME_NUMBER(kHostRegisterPortable, CU_MEMHOSTREGISTER_PORTABLE);
WEFT_SAME_NUMBER(kHostRegisterDeviceMap, CU_MEMHOSTREGISTER_DEVICEMAP);
WEFT_SAME_NUMBER(kIpcLazyEnablePeerAccess, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
WEFT_SAME_NUMBER(kCaptureNone, CU_STREAM_CAPTURE_STATUS_NONE);
WEFT_SAME_NUMBER(kCaptureRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
WEFT_SAME_NUMBER(kProcAddressLegacyStream, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
WEFT_SAME_NUMBER(kProcAddressNotFound, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
WEFT_SAME_NUMBER(kProcAddressVersionTooLow, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);

#define WEFT_SAME_PLACE(ours, our_field, theirs, their_field)                       \
  static_assert(offsetof(mine::ours, our_field) == offsetof(theirs, their_field) && \
                    sizeof(mine::ours::our_field) == sizeof(theirs::their_field),   \
                #theirs "::" #their_field)
static_assert(sizeof(mine::AllocationProperties) == sizeof(CUmemAllocationProp));
WEFT_SAME_PLACE(AllocationProperties, type, CUmemAllocationProp, type);
WEFT_SAME_PLACE(AllocationProperties, requested_handle_types, CUmemAllocationProp,
                requestedHandleTypes);
WEFT_SAME_PLACE(AllocationProperties, location, CUmemAllocationProp, location);
WEFT_SAME_PLACE(AllocationProperties, win32_handle_meta_data, CUmemAllocationProp,
                win32HandleMetaData);
WEFT_SAME_PLACE(AllocationProperties, compression_type, CUmemAllocationProp,
                allocFlags.compressionType);
WEFT_SAME_PLACE(AllocationProperties, gpu_direct_rdma_capable, CUmemAllocationProp,
                allocFlags.gpuDirectRDMACapable);
WEFT_SAME_PLACE(AllocationProperties, usage, CUmemAllocationProp, allocFlags.usage);
static_assert(sizeof(mine::MemoryLocation) == sizeof(CUmemLocation));
WEFT_SAME_PLACE(MemoryLocation, type, CUmemLocation, type);
WEFT_SAME_PLACE(MemoryLocation, id, CUmemLocation, id);
static_assert(sizeof(mine::AccessDescription) == sizeof(CUmemAccessDesc));
WEFT_SAME_PLACE(AccessDescription, location, CUmemAccessDesc, location);
WEFT_SAME_PLACE(AccessDescription, flags, CUmemAccessDesc, flags);
static_assert(sizeof(mine::MemOp) == sizeof(CUstreamBatchMemOpParams));
WEFT_SAME_PLACE(MemOp, value.operation, CUstreamBatchMemOpParams, waitValue.operation);
WEFT_SAME_PLACE(MemOp, value.address, CUstreamBatchMemOpParams, waitValue.address);
WEFT_SAME_PLACE(MemOp, value.value, CUstreamBatchMemOpParams, waitValue.value64);
WEFT_SAME_PLACE(MemOp, value.flags, CUstreamBatchMemOpParams, waitValue.flags);
WEFT_SAME_PLACE(MemOp, value.alias, CUstreamBatchMemOpParams, waitValue.alias);
static_assert(sizeof(mine::Uuid) == sizeof(CUuuid));
static_assert(sizeof(mine::IpcMemoryHandle) == sizeof(CUipcMemHandle));
static_assert(sizeof(mine::DevicePointer) == sizeof(CUdeviceptr));
static_assert(sizeof(mine::AllocationHandle) == sizeof(CUmemGenericAllocationHandle));

}  // namespace
}  // namespace weft
