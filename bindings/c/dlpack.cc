// The C interface of include/weft/dlpack.h. The structs are DLPack's, version 1, laid out again here: they are a fixed
// binary interface, and the header of it is in no package of the systems that weft is built on.
#include "weft/dlpack.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "weft/mem.h"

#include "base/mutex.h"
#include "base/status.h"
#include "base/text.h"
#include "bindings/c/guard.h"
#include "bindings/c/kept_block.h"
#include "bindings/c/struct_size.h"
#include "comm/device/memory/device_memory.h"
#include "comm/kernels/dtype.h"

struct DLManagedTensorVersioned {
  struct Version {
    uint32_t major;
    uint32_t minor;
  };

  struct Device {
    int32_t type;
    int32_t id;
  };

  struct Type {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
  };

  struct Tensor {
    void* data;
    Device device;
    int32_t ndim;
    Type dtype;
    int64_t* shape;
    int64_t* strides;  // in elements
    uint64_t byte_offset;
  };

  Version version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  uint64_t flags;
  Tensor dl_tensor;
};

static_assert(sizeof(DLManagedTensorVersioned) == 80);
static_assert(offsetof(DLManagedTensorVersioned, dl_tensor) == 32);

namespace weft {
namespace {

constexpr char kDlpackCall[] = "weft_mem_dlpack";
constexpr DLManagedTensorVersioned::Version kDlpackVersion = {1, 1};  // the first with float8
constexpr int32_t kDlpackCpu = 1;
constexpr int32_t kDlpackCuda = 2;
constexpr int32_t kDlpackCudaHost = 3;
constexpr uint64_t kDlpackReadOnly = 1;

// The numbers of DLDataTypeCode.
uint8_t TypeCodeOf(weft_dtype_t dtype) {
  switch (dtype) {
    case WEFT_INT8:
    case WEFT_INT32:
    case WEFT_INT64:
      return 0;
    case WEFT_UINT8:
    case WEFT_UINT32:
    case WEFT_UINT64:
      return 1;
    case WEFT_BFLOAT16:
      return 4;
    case WEFT_BOOL:
      return 6;
    case WEFT_FLOAT8_E4M3:
      return 10;
    case WEFT_FLOAT8_E5M2:
      return 12;
    default:
      return 2;
  }
}

// Blocks of tensors that were dropped and could not be freed behind their device's work: while a capture is under way, say. They are
// tried again with later tensors; freed at once they would be somebody else's under what is queued.
class DroppedBlocks {
 public:
  void Drop(void* block) {
    TryAgain();
    if (!Free(block)) Keep(block);
  }

  // The oldest ones, until one cannot be freed yet: of many that wait for one capture one is asked. A forked child has no blocks of
  // its parent's, and another thread may have held the lock there.
  void TryAgain() {
    if (count_.load(std::memory_order_relaxed) == 0 || !FindDeviceMemory().ok()) return;
    while (void* const block = TakeOldest()) {
      if (Free(block)) continue;
      Keep(block);
      return;
    }
  }

 private:
  // False: to be tried again. A forked child has nothing to give back, and what is no block any more the program has freed.
  static bool Free(void* block) {
    const absl::Status freed = FreeDroppedBlock(block);
    if (freed.ok()) return true;
    const weft_result_t result = ResultOf(freed);
    return result == WEFT_FORKED || result == WEFT_INVALID_ARGUMENT;
  }

  void* TakeOldest() {
    MutexLock lock(mutex_);
    if (blocks_.empty()) return nullptr;
    void* const block = blocks_.front();
    blocks_.pop_front();
    count_.store(blocks_.size(), std::memory_order_relaxed);
    return block;
  }

  void Keep(void* block) {
    MutexLock lock(mutex_);
    blocks_.push_back(block);
    count_.store(blocks_.size(), std::memory_order_relaxed);
  }

  Mutex mutex_;
  std::deque<void*> blocks_ WEFT_GUARDED_BY(mutex_);
  std::atomic<size_t> count_{0};  // of blocks_
};

// Never destroyed: tensors of other frameworks may outlive static destructors.
DroppedBlocks& TheDroppedBlocks() {
  static auto* const blocks = new DroppedBlocks;
  return *blocks;
}

struct ManagedTensor {
  DLManagedTensorVersioned managed = {};
  std::array<int64_t, WEFT_TENSOR_DIMS_MAX> shape = {};
  std::array<int64_t, WEFT_TENSOR_DIMS_MAX> strides = {};
  void* block = nullptr;  // kept

  static void Delete(DLManagedTensorVersioned* self) {
    const std::unique_ptr<ManagedTensor> tensor(static_cast<ManagedTensor*>(self->manager_ctx));
    // Frameworks drop tensors that work in streams still uses. Which streams is not known; theirs are by default ordered with the
    // legacy one.
    TheDroppedBlocks().Drop(tensor->block);
  }
};

// The bytes of the tensor, and the strides of its dimensions.
absl::StatusOr<size_t> LayOut(const weft_tensor_t& tensor, ManagedTensor* made) {
  size_t count = 1;
  bool fits = true;
  for (int i = tensor.ndim; i-- > 0;) {
    const auto dim = static_cast<size_t>(i);
    if (tensor.shape[i] < 0) {
      return InvalidArgument(kDlpackCall,
                             StrCat("shape[", i, "] is ", tensor.shape[i], ", not 0 or more"));
    }
    made->shape[dim] = tensor.shape[i];
    made->strides[dim] = static_cast<int64_t>(count);
    // An empty dimension makes an empty tensor; strides beyond it mean nothing but must not overflow.
    const auto extent = static_cast<size_t>(std::max<int64_t>(tensor.shape[i], 1));
    fits = fits && !__builtin_mul_overflow(count, extent, &count) && count <= INT64_MAX / 16;
  }
  if (!fits) return InvalidArgument(kDlpackCall, "shape has more elements than memory can hold");
  const bool empty =
      std::any_of(tensor.shape, tensor.shape + tensor.ndim, [](int64_t dim) { return dim == 0; });
  return empty ? 0 : count * DtypeSize(tensor.dtype);
}

absl::Status CheckTensor(const weft_tensor_t& tensor) {
  if (tensor.data == nullptr) return InvalidArgument(kDlpackCall, "data is NULL");
  if (tensor.ndim < 0 || tensor.ndim > WEFT_TENSOR_DIMS_MAX) {
    return InvalidArgument(kDlpackCall, StrCat("ndim is ", tensor.ndim, "; 0 to ",
                                               WEFT_TENSOR_DIMS_MAX, " are possible"));
  }
  if (tensor.shape == nullptr && tensor.ndim > 0) {
    return InvalidArgument(kDlpackCall, "shape is NULL");
  }
  if (IsDtype(tensor.dtype)) return absl::OkStatus();
  return InvalidArgument(kDlpackCall,
                         StrCat(static_cast<int>(tensor.dtype), " is not a data type"));
}

// Keeps the block that the tensor lies in.
absl::StatusOr<weft_mem_info_t> KeepBlockOf(const void* data, size_t bytes) {
  WEFT_ASSIGN_OR_RETURN(void* const block, KeepBlock(kDlpackCall, data));
  absl::StatusOr<weft_mem_info_t> info = MemoryInfoOf(block);
  const auto offset =
      static_cast<size_t>(static_cast<const char*>(data) - static_cast<const char*>(block));
  if (info.ok() && offset <= info->bytes && bytes <= info->bytes - offset) return info;
  (void)FreeBlock(block);
  return InvalidArgument(kDlpackCall,
                         StrCat("the tensor has ", bytes, " bytes, of which its block has ",
                                info.ok() ? info->bytes - offset : 0));
}

DLManagedTensorVersioned::Device DeviceOf(const weft_mem_info_t& block) {
  if (block.device_kind == WEFT_DEVICE_CUDA) return {.type = kDlpackCuda, .id = block.device};
  return {.type = (block.flags & WEFT_MEM_PINNED) != 0 ? kDlpackCudaHost : kDlpackCpu, .id = 0};
}

}  // namespace
}  // namespace weft

weft_result_t weft_mem_dlpack(const weft_tensor_t* tensor,
                              struct DLManagedTensorVersioned** managed) {
  return weft::Guarded([&]() -> absl::Status {
    if (tensor == nullptr) return weft::InvalidArgument(weft::kDlpackCall, "tensor is NULL");
    if (managed == nullptr) return weft::InvalidArgument(weft::kDlpackCall, "managed is NULL");
    weft_tensor_t full{};
    WEFT_RETURN_IF_ERROR(weft::ReadConfig(weft::kDlpackCall, tensor, &full));
    WEFT_RETURN_IF_ERROR(weft::CheckTensor(full));
    weft::TheDroppedBlocks().TryAgain();
    auto made = std::make_unique<weft::ManagedTensor>();
    WEFT_ASSIGN_OR_RETURN(const size_t bytes, weft::LayOut(full, made.get()));
    WEFT_ASSIGN_OR_RETURN(const weft_mem_info_t block, weft::KeepBlockOf(full.data, bytes));
    made->block = block.base;
    made->managed = {
        .version = weft::kDlpackVersion,
        .manager_ctx = made.get(),
        .deleter = &weft::ManagedTensor::Delete,
        .flags = full.read_only != 0 ? weft::kDlpackReadOnly : 0,
        .dl_tensor = {.data = full.data,
                      .device = weft::DeviceOf(block),
                      .ndim = full.ndim,
                      .dtype = {.code = weft::TypeCodeOf(full.dtype),
                                .bits = static_cast<uint8_t>(8 * weft::DtypeSize(full.dtype)),
                                .lanes = 1},
                      .shape = made->shape.data(),
                      .strides = made->strides.data(),
                      .byte_offset = 0}};
    *managed = &made.release()->managed;
    return absl::OkStatus();
  });
}
