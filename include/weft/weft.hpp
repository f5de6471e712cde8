// weft for C++17: owners for the handles of the C interface, and exceptions for its results. Header only.
//
//   weft::Group group = weft::Group::FromEnvironment();
//   std::vector<float> x = Fill(group.Rank());
//   group.AllReduce(x.data(), x.data(), x.size(), WEFT_SUM);          // returns when done
//   weft::Work work = group.Start().AllReduce(x.data(), x.data(), x.size(), WEFT_SUM);
//   Compute();
//   work.Wait();
//
// A call that fails throws weft::Error, which has the result code, the sentence and the fields. Destructors do not
// fail. Everything else, the rules for buffers and threads above all, is as the C headers say. The shard managers are
// used through weft/shard.h; `get()` gives the C handle of everything here.
//
// The classes live in an inline namespace, so that their symbols meet no other version's in one program.
#ifndef WEFT_WEFT_HPP_
#define WEFT_WEFT_HPP_

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include "weft/owners.hpp"
#include "weft/weft.h"

namespace weft {
inline namespace interface_0 {

// The collectives of a group, in one of two forms: Blocking returns nothing when the operation is done, Started
// returns its Work. Made by Group; borrows it and `call`.
template <typename Result>
class Collectives {
 public:
  explicit Collectives(weft_group_t group, const weft_call_t* call = nullptr) noexcept
      : group_(group), call_(call) {}

  Result AllReduce(const void* in, void* out, std::size_t count, weft_dtype_t dtype,
                   weft_op_t op) const {
    return Issue([&](weft_work_t* work) {
      return weft_all_reduce(in, out, count, dtype, op, group_, call_, work);
    });
  }

  template <typename T>
  Result AllReduce(const T* in, T* out, std::size_t count, weft_op_t op) const {
    return AllReduce(in, out, count, DtypeOf<T>(), op);
  }

  Result Reduce(const void* in, void* out, std::size_t count, weft_dtype_t dtype, weft_op_t op,
                int root) const {
    return Issue([&](weft_work_t* work) {
      return weft_reduce(in, out, count, dtype, op, root, group_, call_, work);
    });
  }

  template <typename T>
  Result Reduce(const T* in, T* out, std::size_t count, weft_op_t op, int root) const {
    return Reduce(in, out, count, DtypeOf<T>(), op, root);
  }

  Result Broadcast(const void* in, void* out, std::size_t count, weft_dtype_t dtype,
                   int root) const {
    return Issue([&](weft_work_t* work) {
      return weft_broadcast(in, out, count, dtype, root, group_, call_, work);
    });
  }

  template <typename T>
  Result Broadcast(const T* in, T* out, std::size_t count, int root) const {
    return Broadcast(in, out, count, DtypeOf<T>(), root);
  }

  Result AllGather(const void* in, void* out, std::size_t count, weft_dtype_t dtype) const {
    return Issue([&](weft_work_t* work) {
      return weft_all_gather(in, out, count, dtype, group_, call_, work);
    });
  }

  template <typename T>
  Result AllGather(const T* in, T* out, std::size_t count) const {
    return AllGather(in, out, count, DtypeOf<T>());
  }

  Result ReduceScatter(const void* in, void* out, std::size_t count, weft_dtype_t dtype,
                       weft_op_t op) const {
    return Issue([&](weft_work_t* work) {
      return weft_reduce_scatter(in, out, count, dtype, op, group_, call_, work);
    });
  }

  template <typename T>
  Result ReduceScatter(const T* in, T* out, std::size_t count, weft_op_t op) const {
    return ReduceScatter(in, out, count, DtypeOf<T>(), op);
  }

  Result Barrier() const {
    return Issue([&](weft_work_t* work) { return weft_barrier(group_, call_, work); });
  }

 private:
  template <typename Call>
  Result Issue(Call&& call) const {
    if constexpr (std::is_void_v<Result>) {
      Check(call(nullptr));
    } else {
      weft_work_t work = nullptr;
      Check(call(&work));
      return Result(work);
    }
  }

  weft_group_t group_;
  const weft_call_t* call_;
};

using Blocking = Collectives<void>;
using Started = Collectives<Work>;

// Ordered ranks that do collectives together. Destroying one aborts what is still under way.
class Group : public Handle<weft_group_t, weft_group_destroy> {
 public:
  using Handle::Handle;

  // From the launcher's environment; a group of one without a launcher.
  static Group FromEnvironment(const weft_group_config_t* config = nullptr) {
    return Make([&](weft_group_t* group) { return weft_group_create_from_env(config, group); });
  }

  static Group FromId(const weft_unique_id_t& id, int size, int rank,
                      const weft_group_config_t* config = nullptr) {
    return Make([&](weft_group_t* group) {
      return weft_group_create_from_id(&id, size, rank, config, group);
    });
  }

  static Group FromStore(const Store& store, int size, int rank,
                         const weft_group_config_t* config = nullptr) {
    return Make([&](weft_group_t* group) {
      return weft_group_create_from_store(store.get(), size, rank, config, group);
    });
  }

  // `size` ranks of this process, each to be driven by a thread of the caller's.
  static std::vector<Group> Local(int size, const weft_group_config_t* config = nullptr) {
    std::vector<weft_group_t> handles(size > 0 ? static_cast<std::size_t>(size) : 1);
    Check(weft_group_create_local(size, config, handles.data()));
    std::vector<Group> groups;
    groups.reserve(handles.size());
    for (weft_group_t handle : handles)
      groups.emplace_back(handle);
    return groups;
  }

  // Empty (false) on a rank that passes WEFT_COLOR_NONE.
  Group Split(int color, int key, const weft_group_config_t* config = nullptr) const {
    return Make(
        [&](weft_group_t* group) { return weft_group_split(get(), color, key, config, group); });
  }

  int Rank() const {
    int rank = 0;
    Check(weft_group_rank(get(), &rank));
    return rank;
  }

  int Size() const {
    int size = 0;
    Check(weft_group_size(get(), &size));
    return size;
  }

  std::string Name() const {
    const char* name = nullptr;
    Check(weft_group_name(get(), &name));
    return name;
  }

  // Throws why the group no longer works, if so.
  void CheckHealth() const { Check(weft_group_error(get())); }

  void Abort(const std::string& reason) const { Check(weft_group_abort(get(), reason.c_str())); }

  // The collectives that return when done, with options; and those that return at once.
  Blocking With(const weft_call_t& call) const noexcept { return Blocking(get(), &call); }

  Started Start(const weft_call_t* call = nullptr) const noexcept { return Started(get(), call); }

  // Blocking collectives with default options: group.AllReduce(in, out, count, WEFT_SUM).
  template <typename... Arguments>
  void AllReduce(Arguments... arguments) const {
    Blocking(get()).AllReduce(arguments...);
  }

  template <typename... Arguments>
  void Reduce(Arguments... arguments) const {
    Blocking(get()).Reduce(arguments...);
  }

  template <typename... Arguments>
  void Broadcast(Arguments... arguments) const {
    Blocking(get()).Broadcast(arguments...);
  }

  template <typename... Arguments>
  void AllGather(Arguments... arguments) const {
    Blocking(get()).AllGather(arguments...);
  }

  template <typename... Arguments>
  void ReduceScatter(Arguments... arguments) const {
    Blocking(get()).ReduceScatter(arguments...);
  }

  void Barrier() const { Blocking(get()).Barrier(); }

 private:
  template <typename Create>
  static Group Make(Create&& create) {
    weft_group_t group = nullptr;
    Check(create(&group));
    return Group(group);
  }
};

}  // namespace interface_0
}  // namespace weft

#endif  // WEFT_WEFT_HPP_
