// The ranks of a process are its threads, the first of them the caller. No rank begins before all threads exist: if one cannot
// be made, the others would wait for its rank until the deadline. What ranks tell each other goes through collectives of the
// same library.
#include "bench/weft_perf/ranks.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <system_error>
#include <thread>
#include <vector>

#include "weft/collective.h"
#include "weft/error.h"

#include "bench/weft_perf/launcher.h"

namespace weft::perf {
namespace {

// Makes the group of this process's rank `local`; runs on that rank's thread.
using GroupMaker = std::function<Outcome(size_t local, weft_group_t* group)>;

ExitCode RunRank(const Options& options, size_t local, const GroupMaker& make,
                 const RankBody& body) {
  weft_group_t group = nullptr;
  if (Outcome made = make(local, &group); !made.ok()) return Tell(options, made);
  const ExitCode code = Tell(options, body(group));
  static_cast<void>(weft_group_destroy(group));
  return code;
}

// Rank 0 of the process on the calling thread, the others on threads that end before this returns.
ExitCode RunThreads(const Options& options, size_t ranks, const GroupMaker& make,
                    const RankBody& body) {
  std::vector<ExitCode> codes(ranks, ExitCode::kOk);
  std::vector<std::thread> threads;
  // No rank begins before all have a thread: the others would wait for one that never comes.
  std::promise<bool> complete;
  const std::shared_future<bool> begin = complete.get_future().share();
  Outcome started;
  try {
    for (size_t local = 1; local < ranks; ++local) {
      threads.emplace_back([&, local] {
        if (!begin.get()) return;
        codes[local] = RunRank(options, local, make, body);
      });
    }
  } catch (const std::system_error& error) {
    started = Fail(ExitCode::kInternal,
                   Printf("could not start thread %zu of %zu: %s; raise the limit on processes and "
                          "threads, ulimit -u",
                          threads.size() + 2, ranks, error.code().message().c_str()));
  }
  complete.set_value(started.ok());
  codes[0] = started.ok() ? RunRank(options, 0, make, body) : Tell(options, started);
  for (std::thread& thread : threads)
    thread.join();
  return *std::max_element(codes.begin(), codes.end());
}

// Rank 0 of `group` makes an id, all get it.
Outcome ShareId(weft_group_t group, int rank, weft_unique_id_t* id) {
  if (rank == 0) {
    if (Outcome o = Called("making a job id", weft_unique_id_create(id)); !o.ok()) return o;
  }
  return Called("sending the job id",
                weft_broadcast(id, id, sizeof(*id), WEFT_UINT8, 0, group, nullptr, nullptr));
}

}  // namespace

Outcome LibraryFailure(const std::string& doing, weft_result_t result) {
  return Fail(ExitCode::kLibrary,
              Printf("%s: %s (%s)", doing.c_str(), weft_last_error(), weft_result_name(result)));
}

Outcome Called(const char* doing, weft_result_t result) {
  return result == WEFT_SUCCESS ? Outcome{} : LibraryFailure(doing, result);
}

ExitCode Tell(const Options& options, const Outcome& outcome) {
  if (!outcome.ok()) {
    std::fprintf(stderr, "%s: %s\n", options.program.c_str(), outcome.message.c_str());
  }
  return outcome.code;
}

Outcome Peers::Make(weft_group_t world, Peers* peers) {
  peers->world_ = world;
  weft_result_t result = weft_group_rank(world, &peers->rank_);
  if (result == WEFT_SUCCESS) result = weft_group_size(world, &peers->size_);
  return Called("asking for the rank", result);
}

Outcome Peers::Barrier() {
  const weft_result_t result = weft_barrier(world_, nullptr, nullptr);
  if (result != WEFT_SUCCESS) return LibraryFailure("waiting for all ranks", result);
  return {};
}

Outcome Peers::Gather(std::span<const double> mine, std::vector<double>* all) {
  all->assign(mine.size() * static_cast<size_t>(size_), 0);
  return Called("gathering the ranks' numbers",
                weft_all_gather(mine.data(), all->data(), mine.size(), WEFT_FLOAT64, world_,
                                nullptr, nullptr));
}

Outcome Peers::GatherText(const std::string& mine, std::vector<std::string>* all) {
  constexpr size_t kRoom = 1024;
  std::vector<char> line(kRoom, '\0');
  std::memcpy(line.data(), mine.data(), std::min(mine.size(), kRoom - 1));
  std::vector<char> lines(kRoom * static_cast<size_t>(size_), '\0');
  const weft_result_t result =
      weft_all_gather(line.data(), lines.data(), kRoom, WEFT_UINT8, world_, nullptr, nullptr);
  if (result != WEFT_SUCCESS) return LibraryFailure("gathering the ranks' lines", result);
  all->clear();
  for (size_t at = 0; at < lines.size(); at += kRoom)
    all->emplace_back(lines.data() + at);
  return {};
}

ExitCode RunFromId(const Options& options, const weft_unique_id_t& id, int process, int processes,
                   const RankBody& body) {
  const int locals = options.ranks_per_process();
  const auto make = [&](size_t local, weft_group_t* group) {
    const int rank = process * locals + static_cast<int>(local);
    const weft_result_t result =
        weft_group_create_from_id(&id, processes * locals, rank, nullptr, group);
    if (result == WEFT_SUCCESS) return Outcome{};
    return LibraryFailure(Printf("rank %d: joining", rank), result);
  };
  return RunThreads(options, locals, make, body);
}

ExitCode RunLocally(const Options& options, size_t ranks, const RankBody& body) {
  std::vector<weft_group_t> groups(ranks, nullptr);
  const weft_result_t result = weft_group_create_local(ranks, nullptr, groups.data());
  if (result != WEFT_SUCCESS) {
    return Tell(options, LibraryFailure(Printf("making %zu ranks", ranks), result));
  }
  const auto make = [&](size_t local, weft_group_t* group) {
    *group = groups[local];
    return Outcome{};
  };
  return RunThreads(options, ranks, make, body);
}

ExitCode RunFromEnvironment(const Options& options, const RankBody& body) {
  weft_group_t world = nullptr;
  const weft_result_t result = weft_group_create_from_env(nullptr, &world);
  if (result != WEFT_SUCCESS) return Tell(options, LibraryFailure("joining", result));
  Peers peers;
  Outcome outcome = Peers::Make(world, &peers);
  if (outcome.ok()) outcome = CheckWorldSize(LauncherSizes(std::getenv), peers.size());
  const bool threads = options.ranks_per_process() > 1;
  weft_unique_id_t id = {};
  if (outcome.ok() && threads) outcome = ShareId(world, peers.rank(), &id);
  ExitCode code = ExitCode::kOk;
  if (!outcome.ok()) {
    static_cast<void>(weft_group_abort(world, outcome.message.c_str()));
    code = Tell(options, outcome);
  } else if (threads) {
    code = RunFromId(options, id, peers.rank(), peers.size(), body);
  } else {
    code = Tell(options, body(world));
  }
  static_cast<void>(weft_group_destroy(world));
  return code;
}

}  // namespace weft::perf
