// The operations of a group as C++ functions, once for all forms: blocking, with options, and started.
//
//   group.AllReduce(in, out, count, WEFT_SUM);                            // element type from the pointers
//   group.AllReduce(in, out, count, WEFT_BFLOAT16, WEFT_SUM);             // or given
//   weft::Work work = group.Start().Send(x, count, next);
//
// Include weft/weft.hpp. Arguments, their rules and the thread rule are those of the C functions of the same names
// (collective.h, vector.h, iov.h, point_to_point.h); null pointers are legal where they are there. Every function is
// there twice: with a dtype, on any pointers, and without one, on pointers to an arithmetic type.
#ifndef WEFT_COLLECTIVES_HPP_
#define WEFT_COLLECTIVES_HPP_

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "weft/owners.hpp"
#include "weft/weft.h"

namespace weft {
inline namespace interface_0 {

// A type that no argument decides: `Same<T>*` takes a null pointer, another argument says what T is.
template <typename T>
class SameAs {
 public:
  using Type = T;
};

// T, said by another argument.
template <typename T>
using Same = typename SameAs<T>::Type;

// The operations. Derived has Issue(f): calls f(group, call, work) and makes a Result of it.
template <typename Derived, typename Result>
class Collectives {
 public:
  // ---- collective.h ----

  Result AllReduce(const void* in, void* out, std::size_t count, weft_dtype_t dtype,
                   weft_op_t op) const {
    return Issue(weft_all_reduce, in, out, count, dtype, op);
  }

  template <typename T>
  Result AllReduce(const T* in, Same<T>* out, std::size_t count, weft_op_t op) const {
    return AllReduce(in, out, count, DtypeOf<T>(), op);
  }

  Result Reduce(const void* in, void* out, std::size_t count, weft_dtype_t dtype, weft_op_t op,
                int root) const {
    return Issue(weft_reduce, in, out, count, dtype, op, root);
  }

  template <typename T>
  Result Reduce(const T* in, Same<T>* out, std::size_t count, weft_op_t op, int root) const {
    return Reduce(in, out, count, DtypeOf<T>(), op, root);
  }

  Result Broadcast(const void* in, void* out, std::size_t count, weft_dtype_t dtype,
                   int root) const {
    return Issue(weft_broadcast, in, out, count, dtype, root);
  }

  template <typename T>
  Result Broadcast(const Same<T>* in, T* out, std::size_t count, int root) const {
    return Broadcast(in, out, count, DtypeOf<T>(), root);
  }

  Result AllGather(const void* in, void* out, std::size_t count, weft_dtype_t dtype) const {
    return Issue(weft_all_gather, in, out, count, dtype);
  }

  template <typename T>
  Result AllGather(const T* in, Same<T>* out, std::size_t count) const {
    return AllGather(in, out, count, DtypeOf<T>());
  }

  Result ReduceScatter(const void* in, void* out, std::size_t count, weft_dtype_t dtype,
                       weft_op_t op) const {
    return Issue(weft_reduce_scatter, in, out, count, dtype, op);
  }

  template <typename T>
  Result ReduceScatter(const T* in, Same<T>* out, std::size_t count, weft_op_t op) const {
    return ReduceScatter(in, out, count, DtypeOf<T>(), op);
  }

  Result Scan(const void* in, void* out, std::size_t count, weft_dtype_t dtype,
              weft_op_t op) const {
    return Issue(weft_scan, in, out, count, dtype, op);
  }

  template <typename T>
  Result Scan(const T* in, Same<T>* out, std::size_t count, weft_op_t op) const {
    return Scan(in, out, count, DtypeOf<T>(), op);
  }

  Result Exscan(const void* in, void* out, std::size_t count, weft_dtype_t dtype,
                weft_op_t op) const {
    return Issue(weft_exscan, in, out, count, dtype, op);
  }

  template <typename T>
  Result Exscan(const T* in, Same<T>* out, std::size_t count, weft_op_t op) const {
    return Exscan(in, out, count, DtypeOf<T>(), op);
  }

  Result Gather(const void* in, void* out, std::size_t count, weft_dtype_t dtype, int root) const {
    return Issue(weft_gather, in, out, count, dtype, root);
  }

  template <typename T>
  Result Gather(const T* in, Same<T>* out, std::size_t count, int root) const {
    return Gather(in, out, count, DtypeOf<T>(), root);
  }

  Result Scatter(const void* in, void* out, std::size_t count, weft_dtype_t dtype, int root) const {
    return Issue(weft_scatter, in, out, count, dtype, root);
  }

  template <typename T>
  Result Scatter(const Same<T>* in, T* out, std::size_t count, int root) const {
    return Scatter(in, out, count, DtypeOf<T>(), root);
  }

  Result AllToAll(const void* in, void* out, std::size_t count, weft_dtype_t dtype) const {
    return Issue(weft_all_to_all, in, out, count, dtype);
  }

  template <typename T>
  Result AllToAll(const T* in, Same<T>* out, std::size_t count) const {
    return AllToAll(in, out, count, DtypeOf<T>());
  }

  Result Barrier() const { return Issue(weft_barrier); }

  // ---- vector.h ----

  Result AllGatherV(const void* in, void* out, const std::size_t* counts,
                    const std::size_t* displacements, weft_dtype_t dtype) const {
    return Issue(weft_all_gather_v, in, out, counts, displacements, dtype);
  }

  template <typename T>
  Result AllGatherV(const T* in, Same<T>* out, const std::size_t* counts,
                    const std::size_t* displacements = nullptr) const {
    return AllGatherV(in, out, counts, displacements, DtypeOf<T>());
  }

  Result ReduceScatterV(const void* in, void* out, const std::size_t* counts,
                        const std::size_t* displacements, weft_dtype_t dtype, weft_op_t op) const {
    return Issue(weft_reduce_scatter_v, in, out, counts, displacements, dtype, op);
  }

  template <typename T>
  Result ReduceScatterV(const T* in, Same<T>* out, const std::size_t* counts,
                        const std::size_t* displacements, weft_op_t op) const {
    return ReduceScatterV(in, out, counts, displacements, DtypeOf<T>(), op);
  }

  Result GatherV(const void* in, std::size_t count, void* out, const std::size_t* counts,
                 const std::size_t* displacements, weft_dtype_t dtype, int root) const {
    return Issue(weft_gather_v, in, count, out, counts, displacements, dtype, root);
  }

  template <typename T>
  Result GatherV(const T* in, std::size_t count, Same<T>* out, const std::size_t* counts,
                 const std::size_t* displacements, int root) const {
    return GatherV(in, count, out, counts, displacements, DtypeOf<T>(), root);
  }

  Result ScatterV(const void* in, const std::size_t* counts, const std::size_t* displacements,
                  void* out, std::size_t count, weft_dtype_t dtype, int root) const {
    return Issue(weft_scatter_v, in, counts, displacements, out, count, dtype, root);
  }

  template <typename T>
  Result ScatterV(const Same<T>* in, const std::size_t* counts, const std::size_t* displacements,
                  T* out, std::size_t count, int root) const {
    return ScatterV(in, counts, displacements, out, count, DtypeOf<T>(), root);
  }

  Result AllToAllV(const void* in, const std::size_t* in_counts,
                   const std::size_t* in_displacements, void* out, const std::size_t* out_counts,
                   const std::size_t* out_displacements, weft_dtype_t dtype) const {
    return Issue(weft_all_to_all_v, in, in_counts, in_displacements, out, out_counts,
                 out_displacements, dtype);
  }

  template <typename T>
  Result AllToAllV(const T* in, const std::size_t* in_counts, const std::size_t* in_displacements,
                   Same<T>* out, const std::size_t* out_counts,
                   const std::size_t* out_displacements) const {
    return AllToAllV(in, in_counts, in_displacements, out, out_counts, out_displacements,
                     DtypeOf<T>());
  }

  // ---- iov.h ----

  Result AllReduceIov(const std::vector<weft_iov_t>& parts, weft_dtype_t dtype,
                      weft_op_t op) const {
    return Issue(weft_all_reduce_iov, parts.data(), parts.size(), dtype, op);
  }

  Result AllGatherIov(const std::vector<weft_iov_t>& parts, weft_dtype_t dtype) const {
    return Issue(weft_all_gather_iov, parts.data(), parts.size(), dtype);
  }

  Result ReduceScatterIov(const std::vector<weft_iov_t>& parts, weft_dtype_t dtype,
                          weft_op_t op) const {
    return Issue(weft_reduce_scatter_iov, parts.data(), parts.size(), dtype, op);
  }

  // ---- point_to_point.h: T may be void where a dtype is given; `sender` as in weft_recv ----

  template <typename T>
  Result Send(const T* in, std::size_t count, weft_dtype_t dtype, int destination,
              std::uint64_t tag = 0) const {
    return Issue(weft_send, in, count, dtype, destination, tag);
  }

  template <typename T>
  Result Send(const T* in, std::size_t count, int destination, std::uint64_t tag = 0) const {
    return Send(in, count, DtypeOf<T>(), destination, tag);
  }

  template <typename T>
  Result Recv(T* out, std::size_t count, weft_dtype_t dtype, int source, std::uint64_t tag = 0,
              int* sender = nullptr) const {
    return Issue(weft_recv, out, count, dtype, source, tag, sender);
  }

  template <typename T>
  Result Recv(T* out, std::size_t count, int source, std::uint64_t tag = 0,
              int* sender = nullptr) const {
    return Recv(out, count, DtypeOf<T>(), source, tag, sender);
  }

  // `info` as in weft_recv_info.
  template <typename T>
  Result RecvInfo(T* out, std::size_t count, weft_dtype_t dtype, int source, std::uint64_t tag,
                  weft_message_info_t* info) const {
    return Issue(weft_recv_info, out, count, dtype, source, tag, info);
  }

  template <typename T>
  Result RecvInfo(T* out, std::size_t count, int source, std::uint64_t tag,
                  weft_message_info_t* info) const {
    return RecvInfo(out, count, DtypeOf<T>(), source, tag, info);
  }

  Result Probe(int source, std::uint64_t tag, weft_message_info_t* info) const {
    return Issue(weft_probe, source, tag, info);
  }

  // NOLINTBEGIN(readability-function-size): the arguments are weft_sendrecv's.
  Result SendRecv(const void* in, std::size_t in_count, int destination, std::uint64_t in_tag,
                  void* out, std::size_t out_count, int source, std::uint64_t out_tag,
                  weft_dtype_t dtype, int* sender = nullptr) const {
    return Issue(weft_sendrecv, in, in_count, destination, in_tag, out, out_count, source, out_tag,
                 dtype, sender);
  }

  template <typename T>
  Result SendRecv(const T* in, std::size_t in_count, int destination, std::uint64_t in_tag,
                  Same<T>* out, std::size_t out_count, int source, std::uint64_t out_tag,
                  int* sender = nullptr) const {
    return SendRecv(in, in_count, destination, in_tag, out, out_count, source, out_tag,
                    DtypeOf<T>(), sender);
  }

  // NOLINTEND(readability-function-size)

 private:
  // As Derived's, with what stands before the group in the C function.
  template <typename Function, typename... Arguments>
  Result Issue(Function function, Arguments... arguments) const {
    return static_cast<const Derived*>(this)->Issue(
        [&](auto... tail) { return function(arguments..., tail...); });
  }
};

}  // namespace interface_0
}  // namespace weft

#endif  // WEFT_COLLECTIVES_HPP_
