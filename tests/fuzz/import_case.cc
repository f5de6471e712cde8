// What was imported is exported again as one file, and compared with what a plain reader of JSON finds in the files.
#include "tests/fuzz/import_case.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "base/text.h"
#include "base/wire.h"
#include "shard/checkpoint/safetensors.h"
#include "shard/checkpoint/tensor_export.h"
#include "shard/checkpoint/tensor_files.h"
#include "shard/checkpoint/tensor_import.h"
#include "tests/fuzz/json_mutation.h"
#include "tests/sim/sim_files.h"

namespace weft::test {
namespace {

using PlainJson = nlohmann::json;

constexpr char kBetween = '\xff';
constexpr size_t kDataMax = 4096;
constexpr const char* kIndexPath = "/m/model.safetensors.index.json";
constexpr const char* kFilePaths[] = {"/m/model-00001-of-00002.safetensors",
                                      "/m/model-00002-of-00002.safetensors"};

constexpr const char* kIndexText =
    R"({"metadata":{"total_size":54},"weight_map":{"w":"model-00001-of-00002.safetensors",)"
    R"("b":"model-00001-of-00002.safetensors","head":"model-00002-of-00002.safetensors",)"
    R"("none":"model-00002-of-00002.safetensors"}})";
constexpr const char* kHeaders[] = {
    R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
    R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[24,30]}})",
    R"({"__metadata__":{"by":"x"},"head":{"dtype":"C64","shape":[3],"data_offsets":[0,24]},)"
    R"("none":{"dtype":"I16","shape":[0,4],"data_offsets":[24,24]}})"};

// What two offsets are, in any text.
std::optional<std::pair<size_t, size_t>> PlaceOf(const PlainJson& entry) {
  if (!entry.is_object() || !entry.contains("data_offsets")) return std::nullopt;
  const PlainJson& place = entry["data_offsets"];
  if (!place.is_array() || place.size() != 2 || !place[0].is_number_unsigned() ||
      !place[1].is_number_unsigned())
    return std::nullopt;
  return std::pair(place[0].get<size_t>(), place[1].get<size_t>());
}

// With as much data as its header says, none of which is 0 throughout.
std::string FileOf(const std::string& header) {
  size_t end = 0;
  const PlainJson json = PlainJson::parse(header, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) {
    for (const PlainJson& entry : json) {
      const auto place = PlaceOf(entry);
      if (place) end = std::max(end, std::min(place->second, kDataMax));
    }
  }
  std::string data(end, '\0');
  for (size_t i = 0; i < end; ++i)
    data[i] = static_cast<char>((i * 7 + header.size()) % 251);  // never kBetween
  WireWriter file;
  file.U64(header.size());
  file.Bytes(header);
  file.Bytes(data);
  return file.Take();
}

struct PlainTensor {
  std::string type;
  PlainJson shape;
  std::string bytes;
  bool operator==(const PlainTensor&) const = default;
};

using PlainTensors = std::map<std::string, PlainTensor>;

// All tensors of a file that import has taken.
void AddTensors(const std::string& file, PlainTensors* tensors) {
  const uint64_t length = WireReader(file).U64();
  const PlainJson header = PlainJson::parse(file.substr(8, length));
  for (const auto& [name, entry] : header.items()) {
    if (name == kSafetensorsMetadata) continue;
    const auto place = PlaceOf(entry);
    (*tensors)[name] = {entry["dtype"], entry["shape"],
                        file.substr(8 + length + place->first, place->second - place->first)};
  }
}

std::string Difference(const std::string& exported, const std::vector<std::string>& files) {
  PlainTensors expected, found;
  for (const std::string& file : files)
    AddTensors(file, &expected);
  AddTensors(exported, &found);
  for (const auto& [name, tensor] : expected) {
    const auto other = found.find(name);
    if (other == found.end()) return StrCat("tensor ", name, " is gone");
    if (other->second != tensor) return StrCat("tensor ", name, " is another one");
  }
  return found.size() == expected.size() ? "" : "there are tensors that no file has";
}

}  // namespace

std::vector<std::string> ImportCase::Seeds() const {
  std::vector<std::string> seeds;
  for (const unsigned flags : {0u, kFolder}) {
    seeds.push_back(StrCat(std::string(1, static_cast<char>(flags)), kIndexText,
                           std::string(1, kBetween), kHeaders[0], std::string(1, kBetween),
                           kHeaders[1]));
  }
  std::string verbatim(1, static_cast<char>(kVerbatim));
  verbatim += kIndexText;
  for (const char* const header : kHeaders)
    verbatim += StrCat(std::string(1, kBetween), FileOf(header));
  seeds.push_back(std::move(verbatim));
  return seeds;
}

std::string ImportCase::Mutate(std::string input, std::mt19937_64& random) {
  static const MutationHints hints{.purposes = {kFolder, kVerbatim},
                                   .texts = {"\"w\"",
                                             "\"b\"",
                                             "\"head\"",
                                             "\"none\"",
                                             "\"\"",
                                             "\"F32\"",
                                             "\"BF16\"",
                                             "\"F64\"",
                                             "\"U8\"",
                                             "\"BOOL\"",
                                             "\"C64\"",
                                             "\"F4\"",
                                             "\"dtype\"",
                                             "\"shape\"",
                                             "\"data_offsets\"",
                                             "\"format\"",
                                             "\"__metadata__\"",
                                             "\"weight_map\"",
                                             "\"\\u0000\"",
                                             "\"model-00001-of-00002.safetensors\"",
                                             "\"model-00002-of-00002.safetensors\"",
                                             "\"../m/model-00001-of-00002.safetensors\""}};
  return MutateJson(std::move(input), hints, random);
}

ImportOutcome ImportCase::Try(std::string_view input) const {
  if (input.empty()) return {};
  const auto flags = static_cast<unsigned char>(input[0]);
  std::vector<std::string> pieces;
  for (size_t at = 1; at <= input.size() && pieces.size() < 3;) {
    const size_t end = std::min(input.find(kBetween, at), input.size());
    pieces.emplace_back(input.substr(at, end - at));
    at = end + 1;
  }
  pieces.resize(3);
  SimFiles files;
  static_cast<void>(files.MakeDirectory("/m"));
  std::vector<std::string> tensors;
  for (size_t i = 0; i < 2; ++i) {
    tensors.push_back((flags & kVerbatim) != 0 ? pieces[1 + i] : FileOf(pieces[1 + i]));
    static_cast<void>(WriteFileAtomically(files, kFilePaths[i], tensors[i]));
  }
  if ((flags & kFolder) == 0) static_cast<void>(WriteFileAtomically(files, kIndexPath, pieces[0]));
  absl::StatusOr<TensorFiles> others = OpenTensorFiles(files, "/m");
  // An index may name one of the files alone.
  tensors.clear();
  if (others.ok()) {
    for (const TensorFile& file : others->files)
      tensors.push_back(files.Contents(file.path));
  }
  const absl::StatusOr<std::string> imported =
      others.ok() ? ImportTensors(files, *std::move(others), "/d", 0) : others.status();
  ImportOutcome outcome;
  outcome.imported = imported.ok();
  if (!imported.ok()) {
    const auto left = files.List("/d");
    if (left.ok() && !left->empty()) outcome.wrong = "refused, and something is left";
    if (imported.status().message().empty()) outcome.wrong = "refused without a word";
    return outcome;
  }
  const absl::StatusOr<SavedCheckpoint> saved = SavedCheckpoint::Open(files, *imported);
  if (!saved.ok()) return {StrCat("imported, but ", FromAbsl(saved.status().message())), true};
  const absl::Status exported = ExportTensors(*saved, files, "/e");
  if (!exported.ok()) return {StrCat("imported, but ", FromAbsl(exported.message())), true};
  outcome.wrong = Difference(files.Contents("/e"), tensors);
  return outcome;
}

}  // namespace weft::test
