#include "shard/checkpoint/checkpoint_names.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>

#include "base/text.h"

namespace weft {
namespace {

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kRunInfix = ".r";
constexpr std::string_view kFailurePrefix = "failed-";
constexpr int64_t kNameNumberMax = int64_t{1} << 53;

// The digits at the beginning of *text, which lose them; nothing if there are none.
std::optional<int64_t> TakeNumber(std::string_view* text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || number < 0 || number > kNameNumberMax) return std::nullopt;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return number;
}

}  // namespace

std::string DirectoryName(const CheckpointName& name) {
  std::string text = fmt::format("{}{:08}", kStepPrefix, name.step);
  if (name.run != 0) text += StrCat(kRunInfix, name.run);
  return text;
}

std::optional<CheckpointName> ParseDirectoryName(std::string_view text) {
  std::string_view left = text;
  if (!left.starts_with(kStepPrefix)) return std::nullopt;
  left.remove_prefix(kStepPrefix.size());
  CheckpointName name;
  const std::optional<int64_t> step = TakeNumber(&left);
  if (!step) return std::nullopt;
  name.step = *step;
  if (left.starts_with(kRunInfix)) {
    left.remove_prefix(kRunInfix.size());
    const std::optional<int64_t> run = TakeNumber(&left);
    if (!run) return std::nullopt;
    name.run = *run;
  }
  if (DirectoryName(name) != text) return std::nullopt;
  return name;
}

std::string TensorFileName(int rank) {
  return fmt::format("rank-{:05}.safetensors", rank);
}

std::string RecordName(int rank) {
  return fmt::format("done-{:05}.json", rank);
}

std::string FailureName(int rank) {
  return fmt::format("{}{:05}", kFailurePrefix, rank);
}

std::optional<int> RankOfFailureName(std::string_view name) {
  std::string_view left = name;
  if (!left.starts_with(kFailurePrefix)) return std::nullopt;
  left.remove_prefix(kFailurePrefix.size());
  const std::optional<int64_t> rank = TakeNumber(&left);
  if (!rank || *rank > std::numeric_limits<int>::max()) return std::nullopt;
  if (FailureName(static_cast<int>(*rank)) != name) return std::nullopt;
  return static_cast<int>(*rank);
}

std::string JobFileName(uint64_t job) {
  return fmt::format("job-{:016x}", job);
}

bool HasManifest(const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), kManifestName) != names.end();
}

std::string JoinPath(std::string_view directory, std::string_view name) {
  return StrCat(directory, "/", name);
}

}  // namespace weft
