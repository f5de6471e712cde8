// Every argument is checked before anything is done that other ranks wait for: a rank that fails in the middle leaves them to
// their deadline. A child of a process that has shared memory is refused (CheckMayMake) for the same reason. Results are
// written last.
#include "weft/group.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/later.h"
#include "base/options.h"
#include "base/wait.h"
#include "bindings/c/create_group.h"
#include "bindings/c/guard.h"
#include "bindings/c/handle_pool.h"
#include "bindings/c/handles.h"
#include "bindings/c/struct_size.h"
#include "comm/group/from_ranks.h"
#include "comm/hierarchy/make_group.h"
#include "comm/node/heap.h"
#include "comm/node/join_group.h"
#include "comm/node/make_group.h"
#include "comm/node/reconfigure_board.h"
#include "comm/node/segment.h"
#include "comm/rendezvous/job_store.h"
#include "comm/rendezvous/launch_environment.h"
#include "comm/rendezvous/newcomer_queue.h"
#include "comm/rendezvous/rendezvous.h"

namespace weft {
namespace {

constexpr size_t kNameBytesMax = 63;

absl::Status ReadOptions(std::string_view call, const weft_group_config_t* config,
                         const char* default_name, GroupOptions* options) {
  weft_group_config_t full{};
  WEFT_RETURN_IF_ERROR(ReadConfig(call, config, &full));
  options->name = full.name != nullptr ? full.name : default_name;
  if (options->name.size() > kNameBytesMax) {
    return InvalidArgument(call, StrCat("the group's name has ", options->name.size(),
                                        " bytes, at most ", kNameBytesMax, " are allowed"));
  }
  if (full.device_kind != WEFT_DEVICE_HOST) {
    if (full.device_kind != WEFT_DEVICE_CUDA) {
      return InvalidArgument(
          call, StrCat("device_kind ", static_cast<int>(full.device_kind), " is not host or CUDA"));
    }
    return CallError(WEFT_UNSUPPORTED, call,
                     "device_kind is CUDA; this version of weft has groups of host memory only");
  }
  if (full.device != 0) {
    return InvalidArgument(
        call, StrCat("device is ", full.device, ", but the group is one of host memory"));
  }
  if (full.timeout_ns < 0 || full.init_timeout_ns < 0) {
    return InvalidArgument(call, "a timeout is negative; 0 means the default");
  }
  options->timeout_ns = full.timeout_ns;
  options->init_timeout_ns = full.init_timeout_ns;
  return absl::OkStatus();
}

absl::StatusOr<weft_store_t> ReadStore(std::string_view call, const weft_group_config_t* config) {
  weft_group_config_t full{};
  WEFT_RETURN_IF_ERROR(ReadConfig(call, config, &full));
  return full.store;
}

absl::Status CheckPlace(std::string_view call, int size, int rank, const void* group,
                        int size_max = kGroupRanksMax) {
  if (group == nullptr) return InvalidArgument(call, "group is NULL");
  if (size < 1) return InvalidArgument(call, StrCat("size is ", size, ", at least 1 is needed"));
  if (size > size_max) {
    return CallError(WEFT_UNSUPPORTED, call,
                     StrCat("size is ", size, ", this version has groups of 1 to ", size_max,
                            size_max == kNodeRanksMax ? " on one machine" : ""));
  }
  if (rank < 0 || rank >= size) {
    return InvalidArgument(call, StrCat("rank ", rank, " is not one of 0..", size - 1));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int>> ReadMembers(std::string_view call, const int members[], int count,
                                             int size) {
  if (members == nullptr && count == 0) return std::vector<int>();
  if (members == nullptr) return InvalidArgument(call, StrCat("members is NULL, count ", count));
  if (count < 1) {
    return InvalidArgument(call, StrCat("count is ", count,
                                        ", at least 1 is needed; for all ranks "
                                        "that live pass NULL and 0"));
  }
  if (count > kGroupRanksMax) {
    return CallError(
        WEFT_UNSUPPORTED, call,
        StrCat("count is ", count, ", this version has groups of 1 to ", kGroupRanksMax));
  }
  std::vector<int> list(members, members + count);
  std::vector<int> present;
  std::copy_if(list.begin(), list.end(), std::back_inserter(present),
               [](int member) { return member != WEFT_NEW_RANK; });
  if (present.empty()) {
    return InvalidArgument(call, "no member is a rank of the group, all are WEFT_NEW_RANK");
  }
  const absl::Status checked = CheckRanks(present, size);
  if (!checked.ok()) return InvalidArgument(call, FromAbsl(checked.message()));
  return list;
}

bool HasNewRank(const std::vector<int>& members) {
  return std::find(members.begin(), members.end(), WEFT_NEW_RANK) != members.end();
}

// Where newcomers are met: the caller's store, or weftrun's.
struct NewcomersStore {
  std::unique_ptr<JobStore> of_job;
  Store* store = nullptr;
};

absl::StatusOr<NewcomersStore> StoreOfNewcomers(std::string_view call, weft_store_t store) {
  NewcomersStore where;
  if (store != nullptr) {
    if (store->magic != weft_store::kMagic) return InvalidArgument(call, "store is not a store");
    where.store = store->store.get();
    return where;
  }
  if (!JobStore::Exists()) {
    return CallError(WEFT_INVALID_USAGE, call,
                     "store is NULL, and weftrun has not started this process, so that there is no "
                     "store where processes that join could be met; pass one");
  }
  where.of_job = std::make_unique<JobStore>();
  where.store = where.of_job.get();
  return where;
}

// A function of its own, because every call with options checks its group.
[[gnu::noinline, gnu::cold]] absl::Status LeftOut(std::string_view call, const weft_group& group) {
  return CallError(WEFT_BAD_STATE, call,
                   StrCat("group ", group.group->name(), " was reconfigured without this rank, ",
                          group.group->rank(), "; destroy the handle"));
}

// Another thread may reconfigure the group from here on.
struct EndReconfiguring {
  ~EndReconfiguring() { group.reconfiguring.store(false); }

  weft_group& group;
};

weft_group_t MakeHandle(std::shared_ptr<ProcessGroup> group) {
  weft_group_t handle = HandlePool<weft_group>::Get().Make();
  handle->group.Set(std::move(group));
  return handle;
}

// Before anybody else is involved: a child of a process that has shared memory cannot make groups.
absl::Status CheckMayMake(std::string_view call) {
  return Annotate(ProcessHeap().CheckFork(), StrCat(call, ": "));
}

absl::Status Make(Store* store, int rank, int size, const GroupOptions& options,
                  weft_group_t* group) {
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<ProcessGroup> made,
                        MakeGroup(store, rank, size, options,
                                  {.fake_nodes = GetOptions().fake_nodes,
                                   .transport = GetOptions().transport,
                                   .streams = static_cast<int>(GetOptions().net_streams),
                                   .span = {.limit_ns = UnreachableNs(),
                                            .schedule_files = GetOptions().schedule_file,
                                            .probe_ns = GetOptions().probe ? kProbeNs : 0}}));
  *group = MakeHandle(std::move(made));
  return absl::OkStatus();
}

// Of a process that weftrun has started, most likely again.
absl::Status JoinJob(const GroupOptions& options, weft_group_t* group) {
  WEFT_ASSIGN_OR_RETURN(const LaunchEnvironment launch, ReadLaunchEnvironment());
  JobStore store;
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<ProcessGroup> joined,
                        JoinNodeGroup(store, options, launch.rank));
  store.SayJoined(launch.rank);
  *group = MakeHandle(std::move(joined));
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckGroup(std::string_view call, weft_group_t group) {
  if (group != nullptr && group->magic == weft_group::kRetired) {
    return InvalidArgument(call, "group was destroyed; pass a live one");
  }
  if (!IsGroup(group)) return InvalidArgument(call, "group is NULL or not a group");
  if (!group->origin.here()) return ForkedError(call, "group");
  if (group->left_out.load(std::memory_order_acquire)) [[unlikely]] {
    return LeftOut(call, *group);
  }
  return absl::OkStatus();
}

absl::Status CheckFromId(std::string_view call, const weft_unique_id_t* id, int size, int rank,
                         const weft_group_config_t* config, const weft_group_t* group,
                         GroupOptions* options) {
  if (id == nullptr) return InvalidArgument(call, "id is NULL");
  WEFT_RETURN_IF_ERROR(CheckPlace(call, size, rank, group));
  WEFT_RETURN_IF_ERROR(ReadOptions(call, config, "world", options));
  return CheckMayMake(call);
}

absl::StatusOr<weft_group_t> MakeFromId(std::string_view call, const weft_unique_id_t& id, int size,
                                        int rank, const GroupOptions& options) {
  const absl::StatusOr<Rendezvous> place =
      RendezvousFromId(id, size, rank, InitDeadlineNs(options));
  if (!place.ok()) return Annotate(place.status(), StrCat(call, ": "));
  weft_group_t group = nullptr;
  WEFT_RETURN_IF_ERROR(Make(place->store.get(), rank, size, options, &group));
  return group;
}

absl::Status CheckSplit(std::string_view call, weft_group_t parent, int color,
                        const weft_group_config_t* config, const weft_group_t* group,
                        GroupOptions* options) {
  WEFT_RETURN_IF_ERROR(CheckGroup(call, parent));
  if (group == nullptr) return InvalidArgument(call, "group is NULL");
  if (color < WEFT_COLOR_NONE) {
    return InvalidArgument(call, StrCat("color ", color, " is below -1"));
  }
  return ReadOptions(call, config, "", options);
}

absl::StatusOr<weft_group_t> MakeSplit(ProcessGroup& parent, int color, int key,
                                       const GroupOptions& options) {
  WEFT_ASSIGN_OR_RETURN(auto part, parent.Split(color, key, options));
  return part == nullptr ? nullptr : MakeHandle(std::move(part));
}

}  // namespace weft

using weft::Guarded;

weft_result_t weft_group_create_from_env(const weft_group_config_t* config, weft_group_t* group) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_group_create_from_env";
    if (group == nullptr) return weft::InvalidArgument(kCall, "group is NULL");
    weft::GroupOptions options;
    WEFT_RETURN_IF_ERROR(weft::ReadOptions(kCall, config, "world", &options));
    WEFT_RETURN_IF_ERROR(weft::CheckMayMake(kCall));
    if (weft::GetOptions().join) {
      if (weft::JobStore::Exists()) return weft::JoinJob(options, group);
      return weft::CallError(WEFT_INVALID_USAGE, kCall,
                             "WEFT_JOIN is set, by which weftrun tells a process to join the group "
                             "that runs, but weftrun has not started this one; unset it");
    }
    WEFT_ASSIGN_OR_RETURN(weft::Rendezvous place,
                          weft::RendezvousFromEnvironment(weft::InitDeadlineNs(options)));
    return weft::Make(place.store.get(), place.rank, place.size, options, group);
  });
}

weft_result_t weft_group_create_from_id(const weft_unique_id_t* id, int size, int rank,
                                        const weft_group_config_t* config, weft_group_t* group) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_group_create_from_id";
    weft::GroupOptions options;
    WEFT_RETURN_IF_ERROR(weft::CheckFromId(kCall, id, size, rank, config, group, &options));
    WEFT_ASSIGN_OR_RETURN(*group, weft::MakeFromId(kCall, *id, size, rank, options));
    return absl::OkStatus();
  });
}

weft_result_t weft_group_create_from_store(weft_store_t store, int size, int rank,
                                           const weft_group_config_t* config, weft_group_t* group) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_group_create_from_store";
    if (store == nullptr || store->magic != weft_store::kMagic) {
      return weft::InvalidArgument(kCall, "store is NULL or not a store");
    }
    WEFT_RETURN_IF_ERROR(weft::CheckPlace(kCall, size, rank, group));
    weft::GroupOptions options;
    WEFT_RETURN_IF_ERROR(weft::ReadOptions(kCall, config, "world", &options));
    WEFT_RETURN_IF_ERROR(weft::CheckMayMake(kCall));
    return weft::Make(store->store.get(), rank, size, options, group);
  });
}

weft_result_t weft_group_create_local(int size, const weft_group_config_t* config,
                                      weft_group_t groups[]) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_group_create_local";
    WEFT_RETURN_IF_ERROR(weft::CheckPlace(kCall, size, 0, groups, weft::kNodeRanksMax));
    weft::GroupOptions options;
    WEFT_RETURN_IF_ERROR(weft::ReadOptions(kCall, config, "world", &options));
    WEFT_RETURN_IF_ERROR(weft::CheckMayMake(kCall));
    WEFT_ASSIGN_OR_RETURN(auto made, weft::CreateLocalGroups(size, options));
    for (int rank = 0; rank < size; ++rank) {
      groups[rank] = weft::MakeHandle(std::move(made[static_cast<size_t>(rank)]));
    }
    return absl::OkStatus();
  });
}

weft_result_t weft_group_split(weft_group_t parent, int color, int key,
                               const weft_group_config_t* config, weft_group_t* group) {
  return Guarded([&]() -> absl::Status {
    weft::GroupOptions options;
    WEFT_RETURN_IF_ERROR(
        weft::CheckSplit("weft_group_split", parent, color, config, group, &options));
    const auto from = parent->group.shared();
    WEFT_ASSIGN_OR_RETURN(*group, weft::MakeSplit(*from, color, key, options));
    return absl::OkStatus();
  });
}

weft_result_t weft_group_create_from_ranks(weft_group_t parent, const int ranks[], int count,
                                           const weft_group_config_t* config, weft_group_t* group) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_group_create_from_ranks";
    WEFT_RETURN_IF_ERROR(weft::CheckGroup(kCall, parent));
    const auto from = parent->group.shared();
    if (group == nullptr) return weft::InvalidArgument(kCall, "group is NULL");
    if (ranks == nullptr) return weft::InvalidArgument(kCall, "ranks is NULL");
    if (count < 1 || count > from->size()) {
      return weft::InvalidArgument(
          kCall, weft::StrCat("count is ", count, ", not 1 to the parent's size, ", from->size()));
    }
    const std::vector<int> list(ranks, ranks + count);
    weft::GroupOptions options;
    WEFT_RETURN_IF_ERROR(weft::ReadOptions(kCall, config, "", &options));
    const absl::Status checked = weft::CheckRanks(list, from->size());
    if (!checked.ok()) return weft::InvalidArgument(kCall, weft::FromAbsl(checked.message()));
    auto part = weft::CreateFromRanks(*from, list, options);
    if (!part.ok()) return weft::Annotate(part.status(), "weft_group_create_from_ranks: ");
    *group = *part == nullptr ? nullptr : weft::MakeHandle(*std::move(part));
    return absl::OkStatus();
  });
}

weft_result_t weft_group_reconfigure(weft_group_t group, const int members[], int count,
                                     const weft_group_config_t* config) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_group_reconfigure";
    WEFT_RETURN_IF_ERROR(weft::CheckGroup(kCall, group));
    WEFT_ASSIGN_OR_RETURN(const std::vector<int> list,
                          weft::ReadMembers(kCall, members, count, group->group->size()));
    weft::GroupOptions options;
    WEFT_RETURN_IF_ERROR(weft::ReadOptions(kCall, config, "", &options));
    weft::NewcomersStore newcomers;
    if (weft::HasNewRank(list)) {
      WEFT_ASSIGN_OR_RETURN(const weft_store_t store, weft::ReadStore(kCall, config));
      WEFT_ASSIGN_OR_RETURN(newcomers, weft::StoreOfNewcomers(kCall, store));
      options.newcomers = newcomers.store;
    }
    if (group->of_mesh) {
      return weft::CallError(WEFT_INVALID_USAGE, kCall,
                             "the group belongs to a mesh; reconfigure the group that the mesh was "
                             "made on, and make the mesh anew");
    }
    if (group->reconfiguring.exchange(true)) {
      return weft::CallError(WEFT_BAD_STATE, kCall,
                             "another thread reconfigures the group at this moment");
    }
    const weft::EndReconfiguring end{*group};
    auto next = group->group->Reconfigure(list, options);
    if (!next.ok()) return weft::Annotate(next.status(), "weft_group_reconfigure: ");
    if (*next == nullptr) {
      group->left_out.store(true, std::memory_order_release);
    } else {
      group->group.Set(*std::move(next));
    }
    return absl::OkStatus();
  });
}

weft_result_t weft_group_join(weft_store_t store, const weft_group_config_t* config,
                              weft_group_t* group) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_group_join";
    if (group == nullptr) return weft::InvalidArgument(kCall, "group is NULL");
    weft::GroupOptions options;
    WEFT_RETURN_IF_ERROR(weft::ReadOptions(kCall, config, "world", &options));
    WEFT_ASSIGN_OR_RETURN(const weft::NewcomersStore where, weft::StoreOfNewcomers(kCall, store));
    WEFT_RETURN_IF_ERROR(weft::CheckMayMake(kCall));
    if (store == nullptr) return weft::JoinJob(options, group);
    WEFT_ASSIGN_OR_RETURN(auto joined, weft::JoinNodeGroup(*where.store, options, weft::kNewRank));
    *group = weft::MakeHandle(std::move(joined));
    return absl::OkStatus();
  });
}

weft_result_t weft_group_newcomers(weft_group_t group, weft_store_t store, int* count) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_group_newcomers";
    WEFT_RETURN_IF_ERROR(weft::CheckGroup(kCall, group));
    if (count == nullptr) return weft::InvalidArgument(kCall, "count is NULL");
    WEFT_ASSIGN_OR_RETURN(const weft::NewcomersStore where, weft::StoreOfNewcomers(kCall, store));
    weft::NewcomerQueue queue(*where.store, group->group->name());
    const auto waiting = queue.Waiting(
        weft::kNodeRanksMax, weft::Later(weft::MonotonicNs(), weft::JobStore::kConnectNs));
    if (!waiting.ok()) return weft::Annotate(waiting.status(), weft::StrCat(kCall, ": "));
    *count = static_cast<int>(waiting->size());
    return absl::OkStatus();
  });
}

weft_result_t weft_group_epoch(weft_group_t group, uint32_t* epoch) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(weft::CheckGroup("weft_group_epoch", group));
    if (epoch == nullptr) return weft::InvalidArgument("weft_group_epoch", "epoch is NULL");
    *epoch = group->group->epoch();
    return absl::OkStatus();
  });
}

weft_result_t weft_group_rank(weft_group_t group, int* rank) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(weft::CheckGroup("weft_group_rank", group));
    if (rank == nullptr) return weft::InvalidArgument("weft_group_rank", "rank is NULL");
    *rank = group->group->rank();
    return absl::OkStatus();
  });
}

weft_result_t weft_group_size(weft_group_t group, int* size) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(weft::CheckGroup("weft_group_size", group));
    if (size == nullptr) return weft::InvalidArgument("weft_group_size", "size is NULL");
    *size = group->group->size();
    return absl::OkStatus();
  });
}

weft_result_t weft_group_name(weft_group_t group, const char** name) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(weft::CheckGroup("weft_group_name", group));
    if (name == nullptr) return weft::InvalidArgument("weft_group_name", "name is NULL");
    *name = group->group->name().c_str();
    return absl::OkStatus();
  });
}

weft_result_t weft_group_set_timeout(weft_group_t group, int64_t timeout_ns) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_group_set_timeout";
    WEFT_RETURN_IF_ERROR(weft::CheckGroup(kCall, group));
    if (timeout_ns < 0) {
      return weft::InvalidArgument(
          kCall, weft::StrCat("timeout_ns is ", timeout_ns, "; 0 means the default"));
    }
    group->group->SetTimeout(timeout_ns);
    return absl::OkStatus();
  });
}

weft_result_t weft_group_sequence(weft_group_t group, uint64_t* sequence) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_group_sequence";
    WEFT_RETURN_IF_ERROR(weft::CheckGroup(kCall, group));
    if (sequence == nullptr) return weft::InvalidArgument(kCall, "sequence is NULL");
    *sequence = group->group->sequence();
    return absl::OkStatus();
  });
}

weft_result_t weft_group_stats(weft_group_t group, weft_group_stats_t* stats) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_group_stats";
    WEFT_RETURN_IF_ERROR(weft::CheckGroup(kCall, group));
    if (stats == nullptr) return weft::InvalidArgument(kCall, "stats is NULL");
    WEFT_RETURN_IF_ERROR(weft::CheckAnswer(kCall, stats));
    const weft::GroupStats found = group->group->stats();
    const weft_group_stats_t full = {.collectives = found.collectives,
                                     .messages = found.messages,
                                     .failures = found.failures,
                                     .in_bytes = found.in_bytes,
                                     .out_bytes = found.out_bytes,
                                     .pending = found.pending,
                                     .wait_ns = found.wait_ns,
                                     .shared_bytes = found.shared_bytes,
                                     .private_bytes = found.private_bytes,
                                     .node_messages = found.node_messages,
                                     .node_bytes = found.node_bytes,
                                     .net_messages = found.net_messages,
                                     .net_bytes = found.net_bytes};
    weft::WriteAnswer(full, stats);
    return absl::OkStatus();
  });
}

weft_result_t weft_group_error(weft_group_t group) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(weft::CheckGroup("weft_group_error", group));
    return group->group->error();
  });
}

weft_result_t weft_group_refuse(weft_group_t group, const char* operation, const char* reason) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_group_refuse";
    WEFT_RETURN_IF_ERROR(weft::CheckGroup(kCall, group));
    if (reason == nullptr) return weft::InvalidArgument(kCall, "reason is NULL");
    const auto refused = operation == nullptr ? std::nullopt : weft::FindOpKind(operation);
    return group->group->Refuse(refused, reason);
  });
}

weft_result_t weft_group_abort(weft_group_t group, const char* reason) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(weft::CheckGroup("weft_group_abort", group));
    group->group->Abort(reason == nullptr ? "" : std::string_view(reason));
    return absl::OkStatus();
  });
}

weft_result_t weft_group_destroy(weft_group_t group) {
  return Guarded([&]() -> absl::Status {
    if (group == nullptr) return absl::OkStatus();
    const bool left_out = weft::IsGroup(group) && group->left_out.load(std::memory_order_acquire);
    if (!left_out || !group->origin.here()) {
      WEFT_RETURN_IF_ERROR(weft::CheckGroup("weft_group_destroy", group));
    }
    group->group->Close();
    weft::HandlePool<weft_group>::Get().Retire(group);
    return absl::OkStatus();
  });
}
