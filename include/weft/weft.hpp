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
// fail. Everything else, the rules for buffers and threads above all, is as the C headers say. `get()` gives the C
// handle of everything here.
//
//   collectives.hpp  every operation, in all forms          op.hpp        reductions of your own
//   owners.hpp       Error, Work, Memory, Registration...   settings.hpp  progress, log, allocator, options, devices
//   completion_queue.hpp   the ends of many works, for one thread
//   shard.hpp, shard_plan.hpp, shard_checks.hpp, shard_state.hpp, checkpoint.hpp   shard managers; the headers that are not included from here
//
// The classes live in an inline namespace, so that their symbols meet no other version's in one program.
#ifndef WEFT_WEFT_HPP_
#define WEFT_WEFT_HPP_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "weft/collectives.hpp"
#include "weft/completion_queue.hpp"
#include "weft/op.hpp"
#include "weft/owners.hpp"
#include "weft/settings.hpp"
#include "weft/weft.h"

namespace weft {
inline namespace interface_0 {

// Operations that return when done, with options. Made by Group; borrows it and `call`.
class Blocking : public Collectives<Blocking, void> {
 public:
  explicit Blocking(weft_group_t group, const weft_call_t* call = nullptr) noexcept
      : group_(group), call_(call) {}

  template <typename Call>
  void Issue(Call&& call) const {
    Check(call(group_, call_, static_cast<weft_work_t*>(nullptr)));
  }

 private:
  weft_group_t group_;
  const weft_call_t* call_;
};

// Operations that return at once, with a Work. Made by Group; borrows it and `call`.
class Started : public Collectives<Started, Work> {
 public:
  explicit Started(weft_group_t group, const weft_call_t* call = nullptr) noexcept
      : group_(group), call_(call) {}

  template <typename Call>
  Work Issue(Call&& call) const {
    weft_work_t work = nullptr;
    Check(call(group_, call_, &work));
    return Work(work);
  }

 private:
  weft_group_t group_;
  const weft_call_t* call_;
};

// Ordered ranks that do collectives together. Destroying one aborts what is still under way. The operations of
// collectives.hpp on the group itself return when done and have default options.
class Group : public Handle<weft_group_t, weft_group_destroy>, public Collectives<Group, void> {
 public:
  using Handle::Handle;

  // From the launcher's environment; a group of one without a launcher.
  static Group FromEnvironment(const weft_group_config_t* config = nullptr) {
    return Group(internal::Returned<weft_group_t>(weft_group_create_from_env, config));
  }

  static Group FromId(const weft_unique_id_t& id, int size, int rank,
                      const weft_group_config_t* config = nullptr) {
    return Group(
        internal::Returned<weft_group_t>(weft_group_create_from_id, &id, size, rank, config));
  }

  static Group FromStore(const Store& store, int size, int rank,
                         const weft_group_config_t* config = nullptr) {
    return Group(internal::Returned<weft_group_t>(weft_group_create_from_store, store.get(), size,
                                                  rank, config));
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
    return Group(internal::Returned<weft_group_t>(weft_group_split, get(), color, key, config));
  }

  // The given ranks of this group, in that order; empty (false) on a rank that is not listed. Collective.
  Group FromRanks(const std::vector<int>& ranks,
                  const weft_group_config_t* config = nullptr) const {
    return Group(internal::Returned<weft_group_t>(weft_group_create_from_ranks, get(), ranks.data(),
                                                  static_cast<int>(ranks.size()), config));
  }

  // Joins a group that runs: weft_group_join. Without a store, by weftrun's.
  static Group Join(weft_store_t store = nullptr, const weft_group_config_t* config = nullptr) {
    return Group(internal::Returned<weft_group_t>(weft_group_join, store, config));
  }

  // Makes the group anew of the given ranks of it, in that order, and of newcomers in places of WEFT_NEW_RANK; without any, of all that
  // live. Collective over those that live; false on a rank that is not listed, whose group can only be destroyed then.
  bool Reconfigure(const std::vector<int>& members = {},
                   const weft_group_config_t* config = nullptr) const {
    const int count = static_cast<int>(members.size());
    const bool listed =
        members.empty() || std::find(members.begin(), members.end(), Rank()) != members.end();
    Check(weft_group_reconfigure(get(), members.empty() ? nullptr : members.data(), count, config));
    return listed;
  }

  // How many processes wait to join.
  int Newcomers(weft_store_t store = nullptr) const {
    return internal::Returned<int>(weft_group_newcomers, get(), store);
  }

  // How often the group has been made.
  std::uint32_t Epoch() const { return internal::Returned<std::uint32_t>(weft_group_epoch, get()); }

  int Rank() const { return internal::Returned<int>(weft_group_rank, get()); }

  int Size() const { return internal::Returned<int>(weft_group_size, get()); }

  std::string Name() const { return internal::Returned<const char*>(weft_group_name, get()); }

  // The deadline on this rank of calls to come that have none of their own; zero: WEFT_TIMEOUT_S or 1800 s.
  void SetTimeout(std::chrono::nanoseconds timeout) const {
    Check(weft_group_set_timeout(get(), timeout.count()));
  }

  // How many collectives this rank has issued: the sequence number of the last one.
  std::uint64_t Sequence() const {
    return internal::Returned<std::uint64_t>(weft_group_sequence, get());
  }

  // weft_iprobe: whether there is such a message now; `info` may be null.
  bool TryProbe(int source, std::uint64_t tag, weft_message_info_t* info) const {
    int found = 0;
    Check(weft_iprobe(source, tag, &found, info, get()));
    return found != 0;
  }

  weft_group_stats_t Stats() const {
    return internal::Filled<weft_group_stats_t>(weft_group_stats, get());
  }

  // What weft does for a call, and why, as lines of "name: value".
  std::string Explain(const weft_explain_query_t& query) const {
    std::size_t length = 0;
    char none = '\0';
    Check(weft_explain(get(), &query, &none, 1, &length));
    std::string text(length + 1, '\0');
    Check(weft_explain(get(), &query, text.data(), text.size(), nullptr));
    text.resize(length);
    return text;
  }

  // Memory that all ranks have, for results that they get in one place (mem.h); both calls are collective.
  void* AllocateShared(std::size_t bytes) const {
    return internal::Returned<void*>(weft_mem_alloc_shared, get(), bytes);
  }

  void FreeShared(void* memory) const { Check(weft_mem_free_shared(get(), memory)); }

  // Throws why the group no longer works, if so.
  void CheckHealth() const { Check(weft_group_error(get())); }

  // This rank does not make the collective that the others make next, and they are told why.
  void Refuse(const std::string& operation, const std::string& reason) const {
    Check(weft_group_refuse(get(), operation.c_str(), reason.c_str()));
  }

  void Abort(const std::string& reason) const { Check(weft_group_abort(get(), reason.c_str())); }

  // The collectives that return when done, with options; and those that return at once.
  Blocking With(const weft_call_t& call) const noexcept { return Blocking(get(), &call); }

  Started Start(const weft_call_t* call = nullptr) const noexcept { return Started(get(), call); }

  template <typename Call>
  void Issue(Call&& call) const {
    Blocking(get()).Issue(call);
  }
};

// Operations started together (batch.h): what is called on this thread while a Batch lives is noted, and started by
// End(), which also waits for what was called in the blocking form and throws the first failure.
//
//   weft::Batch batch;
//   group.Send(x, n, next);
//   group.Recv(y, n, previous);
//   batch.End();
//
// Without End() the destructor ends the batch and drops its result. If an exception leaves the scope, it cancels the batch
// instead: what was noted is not started, as half of it would be worse for the peers, and the groups concerned are aborted.
class Batch {
 public:
  Batch() : exceptions_(std::uncaught_exceptions()) { Check(weft_batch_begin()); }

  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  ~Batch() {
    if (!open_) return;
    const bool unwinding = std::uncaught_exceptions() > exceptions_;
    (void)(unwinding ? weft_batch_cancel() : weft_batch_end());
  }

  void End() {
    open_ = false;
    Check(weft_batch_end());
  }

  // Notes a rank of a group, or of a part of one, which End() makes: this thread may be several ranks. *group is what Group(handle)
  // takes then, and must be there until then.
  static void FromId(const weft_unique_id_t& id, int size, int rank, weft_group_t* group,
                     const weft_group_config_t* config = nullptr) {
    Check(weft_batch_group_create_from_id(&id, size, rank, config, group));
  }

  static void Split(const Group& parent, int color, int key, weft_group_t* group,
                    const weft_group_config_t* config = nullptr) {
    Check(weft_batch_group_split(parent.get(), color, key, config, group));
  }

  // Gives up what was noted; works of it end with WEFT_ABORTED.
  void Cancel() {
    open_ = false;
    Check(weft_batch_cancel());
  }

 private:
  const int exceptions_;  // under way when the batch began
  bool open_ = true;
};

}  // namespace interface_0
}  // namespace weft

#endif  // WEFT_WEFT_HPP_
