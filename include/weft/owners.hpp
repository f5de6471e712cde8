// The parts of weft.hpp that do not communicate: the exception, element types, and owners of works, memory,
// registrations and stores.
//
//   weft::Memory memory(bytes);             // freed with the object
//   float* x = memory.As<float>();
//   try { ... } catch (const weft::Error& error) { if (error.result() == WEFT_PEER_LOST) ... }
//
// Include weft/weft.hpp. Thread rule: as the C handles; moving or destroying an object is a write to it.
#ifndef WEFT_OWNERS_HPP_
#define WEFT_OWNERS_HPP_

#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "weft/weft.h"

namespace weft {
inline namespace interface_0 {

// What a failed call throws. The sentence is what().
class Error : public std::runtime_error {
 public:
  Error(weft_result_t result, const std::string& message, const weft_error_info_t& info)
      : std::runtime_error(message), result_(result), info_(info) {}

  weft_result_t result() const noexcept { return result_; }

  // Rank, process, signal, sequence number... of the culprit, shard unit and param, as far as known.
  const weft_error_info_t& info() const noexcept { return info_; }

 private:
  weft_result_t result_;
  weft_error_info_t info_;
};

// Throws what the calling thread's last weft call, which returned `result`, failed with.
inline void Check(weft_result_t result) {
  if (result == WEFT_SUCCESS) return;
  weft_error_info_t info = {};
  info.struct_size = sizeof(info);
  (void)weft_last_error_info(&info);
  const std::string sentence = weft_last_error();
  throw Error(result, sentence.empty() ? weft_result_name(result) : sentence, info);
}

namespace internal {
// What a C function that succeeds writes to its last parameter: internal::Returned<int>(weft_group_rank, group).
template <typename T, typename Function, typename... Arguments>
T Returned(Function function, Arguments... arguments) {
  T value = {};
  Check(function(arguments..., &value));
  return value;
}

// The same for a struct that begins with its size.
template <typename T, typename Function, typename... Arguments>
T Filled(Function function, Arguments... arguments) {
  T value = {};
  value.struct_size = sizeof(value);
  Check(function(arguments..., &value));
  return value;
}

}  // namespace internal

// The element type of a C++ arithmetic type. 16-bit and 8-bit floats have none: pass WEFT_BFLOAT16 and so on.
template <typename T>
constexpr weft_dtype_t DtypeOf() {
  using U = std::remove_cv_t<T>;
  static_assert(std::is_arithmetic_v<U> && !std::is_same_v<U, bool> && sizeof(U) <= 8,
                "this type has no weft_dtype_t; call the overload that takes one");
  if constexpr (std::is_floating_point_v<U>) {
    return sizeof(U) == 8 ? WEFT_FLOAT64 : WEFT_FLOAT32;
  } else if constexpr (std::is_signed_v<U>) {
    static_assert(sizeof(U) != 2, "weft has no 16-bit integers");
    return sizeof(U) == 1 ? WEFT_INT8 : sizeof(U) == 4 ? WEFT_INT32 : WEFT_INT64;
  } else {
    static_assert(sizeof(U) != 2, "weft has no 16-bit integers");
    return sizeof(U) == 1 ? WEFT_UINT8 : sizeof(U) == 4 ? WEFT_UINT32 : WEFT_UINT64;
  }
}

// Owns one C handle; moves, does not copy.
template <typename H, weft_result_t (*Free)(H)>
class Handle {
 public:
  Handle() noexcept = default;

  explicit Handle(H handle) noexcept : handle_(handle) {}

  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, H{})) {}

  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) Reset(std::exchange(other.handle_, H{}));
    return *this;
  }

  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  ~Handle() { Reset(H{}); }

  H get() const noexcept { return handle_; }

  explicit operator bool() const noexcept { return handle_ != H{}; }

  // Gives the handle up; the caller frees it.
  H Release() noexcept { return std::exchange(handle_, H{}); }

 private:
  void Reset(H handle) noexcept {
    const H old = std::exchange(handle_, handle);
    if (old != H{}) (void)Free(old);
  }

  H handle_ = {};
};

// An operation under way. Destroying it gives the handle back and lets the operation go on; its buffers must stay.
class Work : public Handle<weft_work_t, weft_work_free> {
 public:
  using Handle::Handle;

  // Waits until the operation has ended; throws its error.
  void Wait() const { Check(weft_work_wait(get(), 0)); }

  // False if it has not ended after `timeout` (> 0).
  bool WaitFor(std::chrono::nanoseconds timeout) const {
    const weft_result_t result = weft_work_wait(get(), timeout.count());
    if (result == WEFT_IN_PROGRESS) return false;
    Check(result);
    return true;
  }

  // Whether it has ended; never waits; throws its error.
  bool Test() const { return internal::Returned<int>(weft_work_test, get()) != 0; }

  // WEFT_IN_PROGRESS until it has ended, then its result; never waits or moves anything, and does not throw.
  weft_result_t Error() const noexcept { return weft_work_error(get()); }

  // The fields and the sentence of its failure, on any thread; leave weft_last_error() alone. Before it has ended the
  // result is WEFT_IN_PROGRESS, and the sentence "".
  weft_error_info_t ErrorInfo() const {
    weft_error_info_t info = {};
    info.struct_size = sizeof(info);
    const weft_result_t result = weft_work_error_info(get(), &info);
    if (result == WEFT_IN_PROGRESS) {
      info.result = result;
    } else {
      Check(result);
    }
    return info;
  }

  std::string ErrorMessage() const {
    const char* message = "";
    const weft_result_t result = weft_work_error_message(get(), &message);
    if (result != WEFT_IN_PROGRESS) Check(result);
    return message;
  }

  // At most one per work; may be called at once, on this thread.
  void OnComplete(weft_work_callback_t callback, void* user) const {
    Check(weft_work_on_complete(get(), callback, user));
  }
};

// Memory that the ranks of a node reach directly: collectives on it move less.
class Memory {
 public:
  Memory() noexcept = default;

  explicit Memory(std::size_t bytes)
      : data_(internal::Returned<void*>(weft_mem_alloc, bytes, 0u)), bytes_(bytes) {}

  // On a device, or pinned (weft_mem_alloc_on).
  explicit Memory(const weft_mem_config_t& config)
      : data_(internal::Returned<void*>(weft_mem_alloc_on, &config)), bytes_(config.bytes) {}

  // A copy of memory of any kind.
  static Memory CopyOf(const void* from, std::size_t bytes) {
    Memory copy;
    copy.data_ =
        Handle<void*, weft_mem_free>(internal::Returned<void*>(weft_mem_alloc_copy, from, bytes));
    copy.bytes_ = bytes;
    return copy;
  }

  void* data() const noexcept { return data_.get(); }

  std::size_t size_bytes() const noexcept { return data_ ? bytes_ : 0; }

  template <typename T>
  T* As() const noexcept {
    return static_cast<T*>(data());
  }

  // Gives it up to what is in the stream now, which may still use it (weft_mem_free_on).
  void FreeOn(void* stream) {
    Check(weft_mem_free_on(data(), stream));
    (void)data_.Release();
  }

 private:
  Handle<void*, weft_mem_free> data_;
  std::size_t bytes_ = 0;
};

// Makes memory of the caller's as reachable as Memory, and private again with the object (mem.h has the rules). An
// operation must not be using it then; Deregister() says so, the destructor cannot.
class Registration : public Handle<void*, weft_mem_deregister> {
 public:
  Registration() noexcept = default;

  Registration(void* memory, std::size_t bytes) : Handle(Register(memory, bytes)) {}

  // Of memory that is mapped from a file (weft_mem_register_fd); the mapping stays as it is.
  Registration(void* memory, std::size_t bytes, int fd, std::uint64_t offset)
      : Handle(RegisterFile(memory, bytes, fd, offset)) {}

  void Deregister() {
    Check(weft_mem_deregister(get()));
    (void)Release();
  }

 private:
  static void* Register(void* memory, std::size_t bytes) {
    Check(weft_mem_register(memory, bytes, 0));
    return memory;
  }

  static void* RegisterFile(void* memory, std::size_t bytes, int fd, std::uint64_t offset) {
    Check(weft_mem_register_fd(memory, bytes, fd, offset, 0));
    return memory;
  }
};

// A host framework's key-value store; `callbacks.user` must outlive it.
class Store : public Handle<weft_store_t, weft_store_destroy> {
 public:
  using Handle::Handle;

  explicit Store(const weft_store_callbacks_t& callbacks)
      : Handle(internal::Returned<weft_store_t>(weft_store_create_callbacks, &callbacks)) {}
};

// An id for Group::FromId; one rank makes it and sends it to all.
inline weft_unique_id_t CreateUniqueId() {
  return internal::Returned<weft_unique_id_t>(weft_unique_id_create);
}

}  // namespace interface_0
}  // namespace weft

#endif  // WEFT_OWNERS_HPP_
