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
constexpr std::string_view kDataPrefix = "rank-";
constexpr std::string_view kValuesPrefix = "values-";
constexpr std::string_view kRecordPrefix = "done-";
constexpr std::string_view kJobPrefix = "job-";
constexpr std::string_view kLockPrefix = "lock-";
constexpr std::string_view kBeatInfix = ".beat-";
constexpr size_t kHexDigits = 16;
// Of a file that is about to get its name (WriteFileAtomically).
constexpr std::string_view kAsideSuffix = ".new";
constexpr int64_t kNameNumberMax = int64_t{1} << 53;

// The digits at the beginning of *text, which lose them; nothing if there are none.
std::optional<int64_t> TakeNumber(std::string_view* text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || number < 0 || number > kNameNumberMax) return std::nullopt;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return number;
}

// The rank in a name that begins like this and that `name_of` makes.
std::optional<int> RankOf(std::string_view name, std::string_view prefix,
                          std::string (*name_of)(int rank)) {
  if (!name.starts_with(prefix)) return std::nullopt;
  std::string_view left = name.substr(prefix.size());
  const std::optional<int64_t> rank = TakeNumber(&left);
  if (!rank || *rank > std::numeric_limits<int>::max()) return std::nullopt;
  if (name_of(static_cast<int>(*rank)) != name) return std::nullopt;
  return static_cast<int>(*rank);
}

// The 64 bits at the beginning of *text, which loses them; nothing if there are none.
std::optional<uint64_t> TakeHex(std::string_view* text) {
  const std::string_view digits = text->substr(0, kHexDigits);
  if (digits.size() < kHexDigits ||
      digits.find_first_not_of("0123456789abcdef") != std::string_view::npos)
    return std::nullopt;
  uint64_t number = 0;
  (void)std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  text->remove_prefix(kHexDigits);
  return number;
}

bool IsJobFile(std::string_view name) {
  if (!name.starts_with(kJobPrefix)) return false;
  name.remove_prefix(kJobPrefix.size());
  return TakeHex(&name).has_value() && name.empty();
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
  return fmt::format("{}{:05}.safetensors", kDataPrefix, rank);
}

std::string ValueFileName(int rank) {
  return fmt::format("{}{:05}.bin", kValuesPrefix, rank);
}

std::string RecordName(int rank) {
  return fmt::format("{}{:05}.json", kRecordPrefix, rank);
}

std::string FailureName(int rank) {
  return fmt::format("{}{:05}", kFailurePrefix, rank);
}

std::optional<int> RankOfFailureName(std::string_view name) {
  return RankOf(name, kFailurePrefix, FailureName);
}

std::optional<int> RankOfDataName(std::string_view name) {
  std::optional<int> rank = RankOf(name, kDataPrefix, TensorFileName);
  if (!rank) rank = RankOf(name, kValuesPrefix, ValueFileName);
  return rank ? rank : RankOf(name, kRecordPrefix, RecordName);
}

bool IsCheckpointFile(std::string_view name) {
  if (name.ends_with(kAsideSuffix)) name.remove_suffix(kAsideSuffix.size());
  return name == kManifestName || name == kConfigName || name == kPinName || IsJobFile(name) ||
         RankOfDataName(name) || RankOfFailureName(name);
}

std::string JobFileName(uint64_t job) {
  return fmt::format("{}{:016x}", kJobPrefix, job);
}

std::string LockWantedName(uint64_t token) {
  return fmt::format("{}{:016x}.json", kLockPrefix, token);
}

std::string LockClaimName(uint64_t owner) {
  return fmt::format("{}{:016x}.next", kLockPrefix, owner);
}

std::string LockLookName(uint64_t token) {
  return fmt::format("{}{:016x}.look", kLockPrefix, token);
}

std::string LockBeatName(uint64_t token, int64_t beats) {
  return fmt::format("{}{:016x}{}{}", kLockPrefix, token, kBeatInfix, beats);
}

std::optional<int64_t> BeatsOf(std::string_view name, uint64_t token) {
  const size_t infix = name.find(kBeatInfix);
  if (infix == std::string_view::npos) return std::nullopt;
  std::string_view left = name.substr(infix + kBeatInfix.size());
  const std::optional<int64_t> beats = TakeNumber(&left);
  if (!beats || LockBeatName(token, *beats) != name) return std::nullopt;
  return beats;
}

std::optional<uint64_t> TokenOfLockFile(std::string_view name) {
  if (!name.starts_with(kLockPrefix)) return std::nullopt;
  name.remove_prefix(kLockPrefix.size());
  return TakeHex(&name);
}

bool HasManifest(const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), kManifestName) != names.end();
}

std::string JoinPath(std::string_view directory, std::string_view name) {
  return StrCat(directory, "/", name);
}

}  // namespace weft
