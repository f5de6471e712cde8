// What transformers, accelerate and diffusers write: PREFIX-00001-of-00003.safetensors and PREFIX.safetensors.index.json, whose "weight_map" has
// the file of each tensor.
#include "shard/checkpoint/tensor_files.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/json_reader.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/checkpoint/checkpoint_names.h"
#include "shard/checkpoint/manifest.h"

namespace weft {
namespace {

constexpr std::string_view kExtension = ".safetensors";
constexpr std::string_view kIndexExtension = ".safetensors.index.json";
constexpr size_t kFilesMax = kCheckpointRanksMax;  // an import makes a cut of each

// By tensor, the file that an index says has it.
using WeightMap = std::map<std::string, std::string>;

absl::StatusOr<SafetensorsLayout> ReadLayout(ReadableFile& file, size_t bytes) {
  std::string header(std::min(bytes, kSafetensorsLengthBytes), '\0');
  WEFT_RETURN_IF_ERROR(file.ReadAt(0, header.data(), header.size()));
  WEFT_ASSIGN_OR_RETURN(const size_t header_bytes, SafetensorsHeaderBytes(header, bytes));
  header.resize(header_bytes);
  WEFT_RETURN_IF_ERROR(file.ReadAt(0, header.data(), header.size()));
  return ReadSafetensorsHeader(header, bytes);
}

absl::StatusOr<TensorFile> OpenTensorFile(Files& files, std::string path) {
  TensorFile opened{.path = std::move(path)};
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.Open(opened.path));
  WEFT_ASSIGN_OR_RETURN(opened.bytes, file->Size());
  absl::StatusOr<SafetensorsLayout> layout = ReadLayout(*file, opened.bytes);
  if (!layout.ok())
    return Annotate(layout.status(), StrCat(opened.path, " cannot be read as safetensors: "));
  opened.layout = *std::move(layout);
  for (const SafetensorsEntry& entry : opened.layout.entries) {
    if (entry.name.empty())
      return MakeError(WEFT_CORRUPT, StrCat(opened.path, " has a tensor without a name"));
  }
  return opened;
}

// Opens them one by one, and keeps who has which tensor.
class Opening {
 public:
  Opening(Files& files, const std::string& path) : files_(files) { found_.path = path; }

  absl::Status Add(const std::string& path) {
    WEFT_ASSIGN_OR_RETURN(TensorFile file, OpenTensorFile(files_, path));
    for (const SafetensorsEntry& entry : file.layout.entries) {
      const auto [place, added] = owners_.emplace(entry.name, found_.files.size());
      if (added) continue;
      return MakeError(WEFT_CORRUPT, StrCat("tensor ", entry.name, " is in two files, ",
                                            found_.files[place->second].path, " and ", file.path,
                                            "; take the one away that is not meant"));
    }
    found_.metadata.insert(file.layout.metadata.begin(), file.layout.metadata.end());
    found_.files.push_back(std::move(file));
    return absl::OkStatus();
  }

  // Whether each tensor is where the index says that it is.
  absl::Status Compare(const std::string& index, const std::string& folder,
                       const WeightMap& weights) const {
    for (const auto& [tensor, file] : weights) {
      const auto owner = owners_.find(tensor);
      if (owner != owners_.end() && found_.files[owner->second].path == JoinPath(folder, file))
        continue;
      return MakeError(WEFT_CORRUPT, StrCat(index, " says that tensor ", tensor, " is in ", file,
                                            ", which has no such tensor"));
    }
    for (const auto& [tensor, file] : owners_) {
      if (weights.count(tensor) > 0) continue;
      LogWarn(found_.files[file].path, " has tensor ", tensor, ", one of ",
              owners_.size() - weights.size(), " that ", index,
              " does not name; they are read as the others are");
      break;
    }
    return absl::OkStatus();
  }

  TensorFiles Take() { return std::move(found_); }

 private:
  Files& files_;
  TensorFiles found_;
  std::unordered_map<std::string, size_t> owners_;
};

absl::StatusOr<WeightMap> ReadIndex(Files& files, const std::string& index) {
  WEFT_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(files, index, kSafetensorsHeaderMax));
  SortedJsonReader reader(index);
  const SortedJson json = reader.Parse(text, kSafetensorsHeaderMax);
  const SortedJson& map = reader.Member(json, "weight_map");
  if (!map.is_object()) reader.FailValue("no object");
  WEFT_RETURN_IF_ERROR(reader.status());
  WeightMap weights;
  for (const auto& [tensor, file] : map.items()) {
    if (!file.is_string()) {
      reader.Fail(StrCat("tensor ", tensor, " in \"weight_map\" without the name of a file"));
      break;
    }
    const std::string name = file.get<std::string>();
    if (name.find('/') != std::string::npos || name.find('\0') != std::string::npos) {
      reader.Fail(StrCat("tensor ", tensor, " in file \"", name,
                         "\"; only files that lie beside the index are read"));
      break;
    }
    if (!name.ends_with(kExtension)) {
      reader.Fail(StrCat("tensor ", tensor, " in file \"", name, "\", which is no ", kExtension,
                         " file by its name"));
      break;
    }
    weights.emplace(tensor, name);
  }
  WEFT_RETURN_IF_ERROR(reader.status());
  return weights;
}

absl::StatusOr<TensorFiles> OpenByIndex(Files& files, const std::string& path,
                                        const std::string& index) {
  WEFT_ASSIGN_OR_RETURN(const WeightMap weights, ReadIndex(files, index));
  const std::string folder = ParentDirectory(index);
  std::map<std::string, std::string> names;  // of files, each with a tensor of it
  for (const auto& [tensor, file] : weights)
    names.emplace(file, tensor);
  if (names.size() > kFilesMax)
    return MakeError(WEFT_CORRUPT, StrCat(index, " names more than ", kFilesMax, " files"));
  Opening opening(files, path);
  for (const auto& [name, tensor] : names) {
    const absl::Status added = opening.Add(JoinPath(folder, name));
    if (absl::IsNotFound(added)) {
      return MakeError(WEFT_CORRUPT, StrCat(index, " says that tensor ", tensor, " is in ", name,
                                            ", which is not there"));
    }
    WEFT_RETURN_IF_ERROR(added);
  }
  WEFT_RETURN_IF_ERROR(opening.Compare(index, folder, weights));
  return opening.Take();
}

// "model-00002-of-00003.safetensors": what comes before the numbers, and these; false for other names.
struct SeriesName {
  std::string prefix;
  size_t number = 0;
  size_t count = 0;
};

bool ParseSeriesName(std::string_view name, SeriesName* series) {
  constexpr std::string_view kBetween = "-of-";
  name.remove_suffix(kExtension.size());
  const size_t between = name.rfind(kBetween);
  if (between == std::string_view::npos || between == 0) return false;
  const size_t dash = name.rfind('-', between - 1);
  if (dash == std::string_view::npos) return false;
  const auto read = [](std::string_view digits, size_t* number) {
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), *number);
    return error == std::errc() && end == digits.end();
  };
  series->prefix = name.substr(0, dash);
  return read(name.substr(dash + 1, between - dash - 1), &series->number) &&
         read(name.substr(between + kBetween.size()), &series->count);
}

// A series of which some are missing would be half a model.
absl::Status CheckSeries(const std::string& folder, const std::vector<std::string>& names) {
  std::map<std::pair<std::string, size_t>, std::set<size_t>> seen;
  for (const std::string& name : names) {
    SeriesName series;
    if (ParseSeriesName(name, &series)) seen[{series.prefix, series.count}].insert(series.number);
  }
  for (const auto& [series, numbers] : seen) {
    size_t missing = 1;
    for (const size_t number : numbers)
      missing += number == missing ? 1 : 0;
    if (missing > series.second) continue;
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("file ", missing, " of the ", series.second, " files of ",
                            JoinPath(folder, series.first), " is not there"));
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorFiles> OpenFolder(Files& files, const std::string& folder,
                                       const std::vector<std::string>& inside) {
  std::vector<std::string> names, indexes;
  for (const std::string& name : inside) {
    if (name.ends_with(kIndexExtension)) indexes.push_back(name);
    if (name.ends_with(kExtension)) names.push_back(name);
  }
  if (indexes.size() > 1) {
    return MakeError(WEFT_INVALID_ARGUMENT, StrCat(folder, " has several models, as ", indexes[0],
                                                   " and ", indexes[1], "; name the one's index"));
  }
  if (!indexes.empty()) return OpenByIndex(files, folder, JoinPath(folder, indexes[0]));
  if (names.empty()) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("there is no ", kExtension, " file in ", folder));
  }
  if (names.size() > kFilesMax)
    return MakeError(WEFT_INVALID_ARGUMENT, StrCat(folder, " has more than ", kFilesMax, " files"));
  WEFT_RETURN_IF_ERROR(CheckSeries(folder, names));
  Opening opening(files, folder);
  for (const std::string& name : names)
    WEFT_RETURN_IF_ERROR(opening.Add(JoinPath(folder, name)));
  return opening.Take();
}

}  // namespace

absl::StatusOr<TensorFiles> OpenTensorFiles(Files& files, const std::string& path) {
  if (path.ends_with(".json")) return OpenByIndex(files, path, path);
  if (const auto inside = files.List(path); inside.ok()) return OpenFolder(files, path, *inside);
  Opening opening(files, path);
  WEFT_RETURN_IF_ERROR(opening.Add(path));
  return opening.Take();
}

bool HasTensorFiles(Files& files, const std::string& path) {
  const auto inside = files.List(path);
  if (!inside.ok()) return files.Open(path).ok();
  return std::any_of(inside->begin(), inside->end(),
                     [](const std::string& name) { return name.ends_with(kExtension); });
}

}  // namespace weft
