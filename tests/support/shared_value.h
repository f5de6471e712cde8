// A value that processes share which a test forks: made before they are, and gone with the object of the last of them.
//
//   struct Exchange { std::atomic<int> told{0}; };
//   const SharedValue<Exchange> exchange;
//   ... in a child: exchange->told = 1; ...
#pragma once

#include <sys/mman.h>

namespace weft::test {

template <typename T>
class SharedValue {
 public:
  SharedValue()
      : value_(new (mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                         0)) T) {}

  SharedValue(const SharedValue&) = delete;
  SharedValue& operator=(const SharedValue&) = delete;

  ~SharedValue() { munmap(value_, sizeof(T)); }

  T* operator->() const { return value_; }

 private:
  T* const value_;
};

}  // namespace weft::test
