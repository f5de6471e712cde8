#include "base/per_thread.h"

#include <cxxabi.h>

namespace weft {
namespace {

// An address in the library or program that this is linked into, which stays loaded until the thread has called FreeAll.
char in_this_library;

}  // namespace

constinit thread_local PerThreadObject* PerThreadObject::first_ = nullptr;

// What compilers call for a thread_local with a destructor, without the guard that it would need. Registered for the first
// object, and so again for one that is made when all have been freed.
PerThreadObject* PerThreadObject::Add(std::unique_ptr<PerThreadObject> object, const void* type) {
  if (first_ == nullptr) abi::__cxa_thread_atexit(&FreeAll, nullptr, &in_this_library);
  object->type_ = type;
  object->next_ = first_;
  first_ = object.release();
  return first_;
}

// The last one first, as thread_local objects go; a destructor may add one.
void PerThreadObject::FreeAll(void*) {
  while (first_ != nullptr) {
    const std::unique_ptr<PerThreadObject> last(first_);
    first_ = last->next_;
  }
}

}  // namespace weft
