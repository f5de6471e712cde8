// A vector whose numbers begin at a cache line, as loads of whole vectors want them.
#ifndef WEFT_TRAINER_ALIGNED_VECTOR_H_
#define WEFT_TRAINER_ALIGNED_VECTOR_H_

#include <cstddef>
#include <new>
#include <vector>

namespace weft::trainer {

template <typename T>
struct CacheLineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};

  CacheLineAllocator() = default;

  template <typename Other>
  explicit CacheLineAllocator(const CacheLineAllocator<Other>&) {}

  T* allocate(size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kLine)); }

  void deallocate(T* memory, size_t) { ::operator delete(memory, kLine); }

  bool operator==(const CacheLineAllocator&) const { return true; }
};

template <typename T>
using AlignedVector = std::vector<T, CacheLineAllocator<T>>;

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_ALIGNED_VECTOR_H_
