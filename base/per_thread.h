// Objects that each thread has one of: made on first use, freed when the thread ends.
//
//   LastError& error = PerThread<LastError>::Get();
//
// All of them together take one pointer of thread-local storage. A process that opens a library late has some 1.5 KB of the
// kind that is quick to reach for all of its libraries, and refuses the one that asks for more (tests/install).
//
// An object is known by its type: T is a type of one source. It is found by a walk over the few that the thread has.
//
// Thread-safety: any thread; an object belongs to its thread. One that is made while the thread's objects are freed, by the
// destructor of another, is freed after them.
#pragma once

#include <memory>
#include <utility>

namespace weft {

class PerThreadObject {
 public:
  virtual ~PerThreadObject() = default;

 private:
  template <typename T>
  friend class PerThread;

  static PerThreadObject* Find(const void* type) {
    PerThreadObject* object = first_;
    while (object != nullptr && object->type_ != type)
      object = object->next_;
    return object;
  }

  static PerThreadObject* Add(std::unique_ptr<PerThreadObject> object, const void* type);
  static void FreeAll(void*);

  // No constructor to ask for, and a place that is known when the library is loaded.
  // NOLINTNEXTLINE(readability-identifier-naming): the name of a private member, which it is
  static constinit thread_local PerThreadObject* first_ [[gnu::tls_model("initial-exec")]];

  const void* type_ = nullptr;
  PerThreadObject* next_ = nullptr;
};

template <typename T>
class PerThread {
 public:
  // The calling thread's; made if there is none.
  static T& Get() {
    PerThreadObject* object = PerThreadObject::Find(&kType);
    if (object == nullptr) object = PerThreadObject::Add(std::make_unique<Object>(), &kType);
    return static_cast<Object*>(object)->value;
  }

  // nullptr if the thread has not asked for it yet.
  static T* Find() {
    PerThreadObject* const object = PerThreadObject::Find(&kType);
    return object == nullptr ? nullptr : &static_cast<Object*>(object)->value;
  }

 private:
  struct Object : PerThreadObject {
    T value;
  };

  static constexpr char kType = 0;  // its address is the type
};

}  // namespace weft
