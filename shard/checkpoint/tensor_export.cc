// Files are written one after the other, the index when all others are there: who finds it finds the model.
#include "shard/checkpoint/tensor_export.h"

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_set>
#include <utility>

#include "base/json_reader.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/checkpoint/checkpoint_names.h"
#include "shard/checkpoint/convert.h"
#include "shard/checkpoint/given_name.h"
#include "shard/checkpoint/safetensors.h"
#include "shard/checkpoint/value_copy.h"

namespace weft {
namespace {

// As transformers calls them.
constexpr const char* kModelName = "model.safetensors";
constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr size_t kShardsMax = 99'999;
constexpr size_t kOneFile = std::numeric_limits<size_t>::max();

// Of one file.
struct ExportPlan {
  std::vector<SafetensorsEntry> entries;
  std::vector<size_t> tensors;  // of each entry, its place in the manifest
  size_t saved_bytes = 0;       // of their values in the checkpoint

  size_t bytes() const { return entries.empty() ? 0 : entries.back().end; }

  void Add(SafetensorsEntry entry, const SavedTensor& tensor, size_t place) {
    saved_bytes += tensor.count() * DtypeSize(tensor.dtype);
    entries.push_back(std::move(entry));
    tensors.push_back(place);
  }

  void Place() {
    std::vector<size_t> placed;
    for (const size_t i : PlaceEntries(&entries))
      placed.push_back(tensors[i]);
    tensors = std::move(placed);
  }
};

absl::Status CheckRules(const SavedCheckpoint& saved, const ExportRules& rules) {
  if (rules.floats_as && !CanConvert(*rules.floats_as, *rules.floats_as)) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("floating-point values were to be exported as ",
                            rules.floats_as->name(), ", which has none; use a type that has"));
  }
  for (const auto& [name, other] : rules.names) {
    if (saved.Find(name) == SavedCheckpoint::kNone) {
      return MakeError(
          WEFT_INVALID_ARGUMENT,
          StrCat("the checkpoint ", saved.path(), " has no tensor ", name, ", which was to be ",
                 other ? StrCat("called ", *other) : "left out", "; correct the map of names"));
    }
    if (other) WEFT_RETURN_IF_ERROR(CheckGivenName("tensor", *other));
  }
  return absl::OkStatus();
}

// Of a tensor in the files; nothing if it is left out.
std::optional<SafetensorsEntry> EntryOf(const SavedTensor& tensor, const ExportRules& rules) {
  const auto renamed = rules.names.find(tensor.name);
  const bool same = renamed == rules.names.end();
  if (!same && !renamed->second) return std::nullopt;
  const bool converted = rules.floats_as && CanConvert(tensor.dtype, *rules.floats_as);
  return SafetensorsEntry{.name = same ? tensor.name : *renamed->second,
                          .dtype = converted ? *rules.floats_as : tensor.dtype,
                          .shape = tensor.shape};
}

// Files of up to `shard_bytes`, or of one tensor; at least one file.
absl::StatusOr<std::vector<ExportPlan>> PlanExport(const SavedCheckpoint& saved, size_t shard_bytes,
                                                   const ExportRules& rules) {
  WEFT_RETURN_IF_ERROR(CheckRules(saved, rules));
  std::vector<ExportPlan> plans(1);
  std::unordered_set<std::string> names;
  const std::vector<SavedTensor>& tensors = saved.manifest().tensors;
  size_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const SavedTensor& tensor = tensors[i];
    if (!tensor.Has(WEFT_SHARD_STATE_VALUE)) {
      return MakeError(WEFT_CORRUPT, StrCat("the checkpoint ", saved.path(), " has tensor ",
                                            tensor.name, " without values"));
    }
    std::optional<SafetensorsEntry> entry = EntryOf(tensor, rules);
    if (!entry) continue;
    if (!names.insert(entry->name).second) {
      return MakeError(
          rules.names.empty() ? WEFT_CORRUPT : WEFT_INVALID_ARGUMENT,
          StrCat("two tensors of the checkpoint ", saved.path(), " would be called ", entry->name,
                 rules.names.empty() ? "" : "; correct the map of names"));
    }
    const size_t more = entry->count() * DtypeSize(entry->dtype);
    if (bytes > 0 && (more > shard_bytes || bytes > shard_bytes - more)) {
      plans.emplace_back();
      bytes = 0;
    }
    bytes += more;
    plans.back().Add(*std::move(entry), tensor, i);
  }
  for (ExportPlan& plan : plans)
    plan.Place();
  return plans;
}

// Readers of torch's tensors refuse other formats than these. In all of them elements lie by rows; weft has no name of its own for that.
absl::StatusOr<SafetensorsMetadata> MetadataOf(const SavedCheckpoint& saved) {
  constexpr std::array<std::string_view, 4> kFormats = {"pt", "tf", "flax", "mlx"};
  SafetensorsMetadata metadata;
  for (const SavedValue& value : saved.manifest().values) {
    if (value.name != kSafetensorsMetadata) continue;
    WEFT_ASSIGN_OR_RETURN(const std::string text, saved.Value(value));
    metadata = ParseMetadata(text);
  }
  std::string& format = metadata["format"];
  if (std::find(kFormats.begin(), kFormats.end(), format) == kFormats.end()) format = "pt";
  return metadata;
}

absl::Status CheckAbsent(Files& files, const std::string& path) {
  const absl::Status there = files.Open(path).status();
  if (there.ok()) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat(path, " exists already; choose another name, or remove it"));
  }
  return absl::IsNotFound(there) ? absl::OkStatus() : there;
}

absl::Status WriteTensorFile(const SavedCheckpoint& saved, Files& files, const std::string& file,
                             const ExportPlan& plan, const BytesDone& done) {
  WEFT_ASSIGN_OR_RETURN(const SafetensorsMetadata metadata, MetadataOf(saved));
  WEFT_ASSIGN_OR_RETURN(const std::string header, SafetensorsHeader(plan.entries, metadata));
  return WriteFileAtomically(files, file, header.size() + plan.bytes(), [&](WritableFile& to) {
    WEFT_RETURN_IF_ERROR(to.Write(header.data(), header.size()));
    const auto write = [&](const void* bytes, size_t count) {
      return to.Write(bytes, count);
    };
    ValueCopy copy(saved, plan.saved_bytes, write, done);
    for (size_t i = 0; i < plan.tensors.size(); ++i)
      WEFT_RETURN_IF_ERROR(copy.Add(plan.tensors[i], plan.entries[i].dtype));
    return copy.Flush();
  });
}

// "model-00002-of-00003.safetensors".
std::string ShardName(size_t number, size_t count) {
  const auto five = [](size_t n) {
    const std::string digits = std::to_string(n);
    return std::string(5 - digits.size(), '0') + digits;
  };
  return StrCat("model-", five(number), "-of-", five(count), ".safetensors");
}

ExportSize SizeOf(const std::vector<ExportPlan>& plans) {
  ExportSize size;
  for (const ExportPlan& plan : plans) {
    size.tensors += plan.entries.size();
    size.bytes += plan.bytes();
  }
  return size;
}

std::string IndexText(const std::vector<ExportPlan>& plans, const std::vector<std::string>& names) {
  SortedJson weights = SortedJson::object();
  for (size_t i = 0; i < plans.size(); ++i) {
    for (const SafetensorsEntry& entry : plans[i].entries)
      weights[entry.name] = names[i];
  }
  const SortedJson json = {{"metadata", {{"total_size", SizeOf(plans).bytes}}},
                           {"weight_map", std::move(weights)}};
  return json.dump(2, ' ', false, SortedJson::error_handler_t::replace) + "\n";
}

// Other files of a model, such as its config.json, may be there; tensors may not, as a reader would take those of both.
absl::Status PrepareFolder(Files& files, const std::string& folder, bool* made) {
  const auto inside = files.List(folder);
  *made = absl::IsNotFound(inside.status());
  if (*made) return files.MakeDirectory(folder);
  WEFT_RETURN_IF_ERROR(inside.status());
  for (const std::string& name : *inside) {
    if (!name.starts_with("model") || name.find(".safetensors") == std::string::npos) continue;
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat(JoinPath(folder, name),
                            " exists already; choose another folder, or remove its model"));
  }
  return absl::OkStatus();
}

// As well as can be.
void TakeBack(Files& files, const std::string& folder, const std::vector<std::string>& names,
              bool made) {
  const auto told = [](const absl::Status& removed) {
    if (!removed.ok() && !absl::IsNotFound(removed))
      LogWarn("checkpoint: a part of what was exported is left: ", FromAbsl(removed.message()));
  };
  for (const std::string& name : names)
    told(files.Remove(JoinPath(folder, name)));
  if (made) told(files.RemoveDirectory(folder));
}

}  // namespace

absl::StatusOr<ExportSize> SizeOfExport(const SavedCheckpoint& saved, const ExportRules& rules) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<ExportPlan> plans, PlanExport(saved, kOneFile, rules));
  return SizeOf(plans);
}

absl::Status ExportTensors(const SavedCheckpoint& saved, Files& files, const std::string& file,
                           const BytesDone& done, const ExportRules& rules) {
  WEFT_RETURN_IF_ERROR(CheckAbsent(files, file));
  WEFT_ASSIGN_OR_RETURN(const std::vector<ExportPlan> plans, PlanExport(saved, kOneFile, rules));
  return WriteTensorFile(saved, files, file, plans.front(), done);
}

absl::StatusOr<std::vector<std::string>> ExportShards(const SavedCheckpoint& saved, Files& files,
                                                      const std::string& folder, size_t shard_bytes,
                                                      const BytesDone& done,
                                                      const ExportRules& rules) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<ExportPlan> plans, PlanExport(saved, shard_bytes, rules));
  if (plans.size() > kShardsMax) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("files of up to ", shard_bytes, " bytes would be ", plans.size(),
                            "; use a size that makes up to ", kShardsMax));
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < plans.size(); ++i)
    names.push_back(plans.size() == 1 ? kModelName : ShardName(i + 1, plans.size()));
  if (plans.size() > 1) names.emplace_back(kIndexName);
  bool made = false;
  WEFT_RETURN_IF_ERROR(PrepareFolder(files, folder, &made));
  absl::Status written;
  // Another program may have come to the folder, too: what is its own stays.
  std::vector<std::string> begun;
  bool alone = true;
  for (size_t i = 0; i < names.size() && written.ok(); ++i) {
    const std::string path = JoinPath(folder, names[i]);
    written = CheckAbsent(files, path);
    alone = ResultOf(written) != WEFT_INVALID_ARGUMENT;
    if (!written.ok()) break;
    begun.push_back(names[i]);
    written = i < plans.size() ? WriteTensorFile(saved, files, path, plans[i], done)
                               : WriteFileAtomically(files, path, IndexText(plans, names));
  }
  if (written.ok() && made) written = files.SyncDirectory(ParentDirectory(folder));
  if (written.ok()) return names;
  TakeBack(files, folder, begun, made && alone);
  return written;
}

}  // namespace weft
