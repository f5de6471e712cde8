#include "bench/weft_perf/stage.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include <unistd.h>

#include "bench/weft_perf/launcher.h"
#include "bench/weft_perf/machine.h"

namespace weft::perf {

Stage::Stage(const Options& options, weft_group_t world, const Peers& peers)
    : options_(options), world_(world), group_(world), peers_(peers) {}

Stage::~Stage() {
  if (group_ != world_) static_cast<void>(weft_group_destroy(group_));
}

Outcome Stage::Split() {
  const int process = peers_.rank() / options_.ranks_per_process();
  if (Outcome o = SplitColor(std::getenv, process, &color_); !o.ok()) return o;
  // Every rank splits if any does: the variables may be set on some only.
  std::vector<double> colors;
  if (Outcome o = peers_.Gather(color_, &colors); !o.ok()) return o;
  std::map<int, RankGroup> by_color;
  for (size_t rank = 0; rank < colors.size(); ++rank) {
    const auto color = static_cast<int>(colors[rank]);
    by_color[color].color = color;
    by_color[color].ranks.push_back(static_cast<int>(rank));
  }
  for (auto& [color, group] : by_color)
    groups_.push_back(std::move(group));
  weft_result_t result = WEFT_SUCCESS;
  if (groups_.size() > 1) {
    result = weft_group_split(world_, color_, peers_.rank(), nullptr, &group_);
    if (result != WEFT_SUCCESS) return LibraryFailure("splitting the ranks", result);
  }
  result = weft_group_rank(group_, &rank_);
  if (result == WEFT_SUCCESS) result = weft_group_size(group_, &size_);
  if (result != WEFT_SUCCESS) return LibraryFailure("asking for the rank", result);
  if (!options_.operation->rooted || options_.root < smallest_group()) return {};
  return Fail(ExitCode::kUsage, Printf("-r %d: the group has ranks 0 to %d only", options_.root,
                                       smallest_group() - 1));
}

int Stage::smallest_group() const {
  size_t smallest = SIZE_MAX;
  for (const RankGroup& group : groups_)
    smallest = std::min(smallest, group.ranks.size());
  return static_cast<int>(smallest);
}

Outcome Stage::ListDevices(std::vector<Device>* devices) {
  std::vector<std::string> keys;
  if (Outcome o = peers_.GatherText(HostKey(), &keys); !o.ok()) return o;
  const std::string& mine = keys[static_cast<size_t>(peers_.rank())];
  ranks_on_host_ = static_cast<int>(std::count(keys.begin(), keys.end(), mine));
  const auto device =
      static_cast<int>(std::count(keys.begin(), keys.begin() + peers_.rank(), mine));

  std::vector<double> numbers;
  const double numbers_of_mine[] = {static_cast<double>(color_), static_cast<double>(getpid()),
                                    static_cast<double>(device)};
  std::vector<std::string> hosts;
  std::vector<std::string> places;
  std::vector<std::string> models;
  if (Outcome o = peers_.Gather(numbers_of_mine, &numbers); !o.ok()) return o;
  if (Outcome o = peers_.GatherText(HostName(), &hosts); !o.ok()) return o;
  if (Outcome o = peers_.GatherText(CpuPlace(), &places); !o.ok()) return o;
  if (Outcome o = peers_.GatherText(CpuModel(), &models); !o.ok()) return o;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    devices->push_back({static_cast<int>(rank), static_cast<int>(numbers[3 * rank]),
                        static_cast<int>(numbers[3 * rank + 1]), hosts[rank],
                        static_cast<int>(numbers[3 * rank + 2]), places[rank], models[rank]});
  }
  return {};
}

Outcome Stage::FitSizes(int copies, Options* options, std::string* note) {
  const size_t mine = LargestBufferBytes(AvailableMemoryBytes(), ranks_on_host_, copies);
  std::vector<double> limits;
  if (Outcome o = peers_.Gather(static_cast<double>(mine), &limits); !o.ok()) return o;
  const auto limit = static_cast<size_t>(*std::min_element(limits.begin(), limits.end()));
  if (options->max_bytes <= limit) return {};
  options->max_bytes = limit;
  *note = Printf("#\n# Reducing maxBytes to %zu due to memory limitation\n", limit);
  if (options->min_bytes <= limit) return {};
  return Fail(ExitCode::kUsage, Printf("-b %zu does not fit into memory; at most %zu does",
                                       options->min_bytes, limit));
}

}  // namespace weft::perf
