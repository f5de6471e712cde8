// The driver's functions that weft calls: name without "cu", the version of CUDA whose form of it is meant, and its arguments.
//
//   #define WEFT_MEMBER(name, version, arguments) cuda::Result(*name) arguments = nullptr;
//   WEFT_CUDA_FUNCTIONS(WEFT_MEMBER)
//
// The driver of CUDA 12.0 has them all. tests/device/driver_types_check.cc compares the arguments with cuda.h's.
#pragma once

#include "comm/device/driver/driver_types.h"

// clang-format off
#define WEFT_CUDA_FUNCTIONS(X)                                                                                     \
  /* the driver and its devices */                                                                                 \
  X(Init, 2000, (uint32_t flags))                                                                                  \
  X(DriverGetVersion, 2020, (int32_t * version))                                                                   \
  X(GetErrorName, 6000, (::weft::cuda::Result error, const char** name))                                           \
  X(GetErrorString, 6000, (::weft::cuda::Result error, const char** text))                                         \
  X(DeviceGetCount, 2000, (int32_t * count))                                                                       \
  X(DeviceGet, 2000, (::weft::cuda::DeviceHandle * device, int32_t ordinal))                                       \
  X(DeviceGetName, 2000, (char* name, int32_t bytes, ::weft::cuda::DeviceHandle device))                           \
  X(DeviceGetUuid, 11040, (::weft::cuda::Uuid * uuid, ::weft::cuda::DeviceHandle device))                          \
  X(DeviceGetPCIBusId, 4010, (char* text, int32_t bytes, ::weft::cuda::DeviceHandle device))                       \
  X(DeviceTotalMem, 3020, (size_t * bytes, ::weft::cuda::DeviceHandle device))                                     \
  X(DeviceGetAttribute, 2000,                                                                                      \
    (int32_t * value, ::weft::cuda::DeviceAttribute attribute, ::weft::cuda::DeviceHandle device))                 \
  X(DeviceCanAccessPeer, 4000,                                                                                     \
    (int32_t * can, ::weft::cuda::DeviceHandle device, ::weft::cuda::DeviceHandle peer))                           \
  /* contexts */                                                                                                   \
  X(DevicePrimaryCtxRetain, 7000, (::weft::cuda::Context * context, ::weft::cuda::DeviceHandle device))            \
  X(DevicePrimaryCtxRelease, 11000, (::weft::cuda::DeviceHandle device))                                           \
  X(CtxGetCurrent, 4000, (::weft::cuda::Context * context))                                                        \
  X(CtxPushCurrent, 4000, (::weft::cuda::Context context))                                                         \
  X(CtxPopCurrent, 4000, (::weft::cuda::Context * context))                                                        \
  X(CtxGetDevice, 2000, (::weft::cuda::DeviceHandle * device))                                                     \
  X(CtxSynchronize, 2000, ())                                                                                      \
  X(CtxEnablePeerAccess, 4000, (::weft::cuda::Context peer, uint32_t flags))                                       \
  /* memory */                                                                                                     \
  X(MemGetInfo, 3020, (size_t * free_bytes, size_t* total_bytes))                                                  \
  X(MemAlloc, 3020, (::weft::cuda::DevicePointer * memory, size_t bytes))                                          \
  X(MemFree, 3020, (::weft::cuda::DevicePointer memory))                                                           \
  X(MemHostAlloc, 2020, (void** memory, size_t bytes, uint32_t flags))                                             \
  X(MemFreeHost, 2000, (void* memory))                                                                             \
  X(MemHostRegister, 6050, (void* memory, size_t bytes, uint32_t flags))                                           \
  X(MemHostUnregister, 4000, (void* memory))                                                                       \
  X(MemHostGetDevicePointer, 3020, (::weft::cuda::DevicePointer * device, void* host, uint32_t flags))             \
  X(PointerGetAttribute, 4000,                                                                                     \
    (void* value, ::weft::cuda::PointerAttribute attribute, ::weft::cuda::DevicePointer pointer))                  \
  X(MemGetAllocationGranularity, 10020,                                                                            \
    (size_t * bytes, const ::weft::cuda::AllocationProperties* properties, int32_t option))                        \
  X(MemCreate, 10020,                                                                                              \
    (::weft::cuda::AllocationHandle * handle, size_t bytes,                                                        \
     const ::weft::cuda::AllocationProperties* properties, unsigned long long flags))                              \
  X(MemRelease, 10020, (::weft::cuda::AllocationHandle handle))                                                    \
  X(MemAddressReserve, 10020,                                                                                      \
    (::weft::cuda::DevicePointer * memory, size_t bytes, size_t alignment, ::weft::cuda::DevicePointer wanted,     \
     unsigned long long flags))                                                                                    \
  X(MemAddressFree, 10020, (::weft::cuda::DevicePointer memory, size_t bytes))                                     \
  X(MemMap, 10020,                                                                                                 \
    (::weft::cuda::DevicePointer memory, size_t bytes, size_t offset, ::weft::cuda::AllocationHandle handle,       \
     unsigned long long flags))                                                                                    \
  X(MemUnmap, 10020, (::weft::cuda::DevicePointer memory, size_t bytes))                                           \
  X(MemSetAccess, 10020,                                                                                           \
    (::weft::cuda::DevicePointer memory, size_t bytes, const ::weft::cuda::AccessDescription* access,              \
     size_t count))                                                                                                \
  X(MemExportToShareableHandle, 10020,                                                                             \
    (void* shareable, ::weft::cuda::AllocationHandle handle, int32_t type, unsigned long long flags))              \
  X(MemImportFromShareableHandle, 10020,                                                                           \
    (::weft::cuda::AllocationHandle * handle, void* shareable, int32_t type))                                      \
  X(MemRetainAllocationHandle, 11000, (::weft::cuda::AllocationHandle * handle, void* memory))                     \
  X(IpcGetMemHandle, 4010, (::weft::cuda::IpcMemoryHandle * handle, ::weft::cuda::DevicePointer memory))           \
  X(IpcOpenMemHandle, 11000,                                                                                       \
    (::weft::cuda::DevicePointer * memory, ::weft::cuda::IpcMemoryHandle handle, uint32_t flags))                  \
  X(IpcCloseMemHandle, 4010, (::weft::cuda::DevicePointer memory))                                                 \
  X(MemcpyAsync, 4000,                                                                                             \
    (::weft::cuda::DevicePointer to, ::weft::cuda::DevicePointer from, size_t bytes,                               \
     ::weft::cuda::Stream stream))                                                                                 \
  X(MemsetD8Async, 3020,                                                                                           \
    (::weft::cuda::DevicePointer memory, unsigned char value, size_t bytes, ::weft::cuda::Stream stream))          \
  /* streams and events */                                                                                         \
  X(StreamCreate, 2000, (::weft::cuda::Stream * stream, uint32_t flags))                                           \
  X(StreamDestroy, 4000, (::weft::cuda::Stream stream))                                                            \
  X(StreamSynchronize, 2000, (::weft::cuda::Stream stream))                                                        \
  X(StreamQuery, 2000, (::weft::cuda::Stream stream))                                                              \
  X(StreamWaitEvent, 3020, (::weft::cuda::Stream stream, ::weft::cuda::Event event, uint32_t flags))               \
  X(StreamGetCtx, 9020, (::weft::cuda::Stream stream, ::weft::cuda::Context * context))                            \
  X(StreamIsCapturing, 10000, (::weft::cuda::Stream stream, int32_t* status))                                      \
  X(ThreadExchangeStreamCaptureMode, 10010, (int32_t * mode))                                                      \
  X(StreamWaitValue32, 11070,                                                                                      \
    (::weft::cuda::Stream stream, ::weft::cuda::DevicePointer word, uint32_t value, uint32_t flags))               \
  X(StreamWriteValue32, 11070,                                                                                     \
    (::weft::cuda::Stream stream, ::weft::cuda::DevicePointer word, uint32_t value, uint32_t flags))               \
  X(StreamBatchMemOp, 11070,                                                                                       \
    (::weft::cuda::Stream stream, uint32_t count, ::weft::cuda::MemOp* operations, uint32_t flags))                \
  X(LaunchHostFunc, 10000, (::weft::cuda::Stream stream, ::weft::cuda::HostFunction function, void* user))         \
  X(EventCreate, 2000, (::weft::cuda::Event * event, uint32_t flags))                                              \
  X(EventDestroy, 4000, (::weft::cuda::Event event))                                                               \
  X(EventRecord, 2000, (::weft::cuda::Event event, ::weft::cuda::Stream stream))                                   \
  X(EventQuery, 2000, (::weft::cuda::Event event))                                                                 \
  X(EventSynchronize, 2000, (::weft::cuda::Event event))                                                           \
  X(EventElapsedTime, 2000, (float* milliseconds, ::weft::cuda::Event start, ::weft::cuda::Event end))             \
  /* kernels */                                                                                                    \
  X(ModuleLoadData, 2000, (::weft::cuda::Module * module, const void* image))                                      \
  X(ModuleUnload, 2000, (::weft::cuda::Module module))                                                             \
  X(ModuleGetFunction, 2000, (::weft::cuda::Function * function, ::weft::cuda::Module module, const char* name))   \
  X(FuncGetAttribute, 2020,                                                                                        \
    (int32_t * value, ::weft::cuda::FunctionAttribute attribute, ::weft::cuda::Function function))                 \
  X(FuncSetAttribute, 9000,                                                                                        \
    (::weft::cuda::Function function, ::weft::cuda::FunctionAttribute attribute, int32_t value))                   \
  X(OccupancyMaxActiveBlocksPerMultiprocessor, 6050,                                                               \
    (int32_t * blocks, ::weft::cuda::Function function, int32_t threads, size_t dynamic_shared_bytes))             \
  X(LaunchKernel, 4000,                                                                                            \
    (::weft::cuda::Function function, uint32_t grid_x, uint32_t grid_y, uint32_t grid_z, uint32_t block_x,         \
     uint32_t block_y, uint32_t block_z, uint32_t shared_bytes, ::weft::cuda::Stream stream, void** parameters,    \
     void** extra))
// clang-format on
