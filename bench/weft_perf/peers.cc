#include "bench/weft_perf/peers.h"

#include <cstring>

#include "weft/collective.h"
#include "weft/error.h"

namespace weft::perf {

Outcome LibraryFailure(const std::string& doing, weft_result_t result) {
  return Fail(ExitCode::kLibrary,
              Printf("%s: %s (%s)", doing.c_str(), weft_last_error(), weft_result_name(result)));
}

Outcome Peers::Make(weft_group_t world, Peers* peers) {
  peers->world_ = world;
  weft_result_t result = weft_group_rank(world, &peers->rank_);
  if (result == WEFT_SUCCESS) result = weft_group_size(world, &peers->size_);
  if (result != WEFT_SUCCESS) return LibraryFailure("asking for the rank", result);
  return {};
}

Outcome Peers::Barrier() {
  const weft_result_t result = weft_barrier(world_, nullptr, nullptr);
  if (result != WEFT_SUCCESS) return LibraryFailure("waiting for all ranks", result);
  return {};
}

Outcome Peers::Gather(std::span<const double> mine, std::vector<double>* all) {
  all->assign(mine.size() * static_cast<size_t>(size_), 0);
  const weft_result_t result = weft_all_gather(mine.data(), all->data(), mine.size(), WEFT_FLOAT64,
                                               world_, nullptr, nullptr);
  if (result != WEFT_SUCCESS) return LibraryFailure("gathering the ranks' numbers", result);
  return {};
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

}  // namespace weft::perf
