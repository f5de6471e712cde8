#include "shard/checkpoint/manifest.h"

#include <charconv>
#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/crc32c.h"
#include "base/json_reader.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/checkpoint/sealed_text.h"

namespace weft {
namespace {

constexpr uint64_t kNumberMax = uint64_t{1} << 62;
constexpr size_t kTensorsMax = 1 << 22;
constexpr size_t kCutsMax = 1 << 22;  // of one tensor: a rank may have several of it
constexpr size_t kDimensionsMax = WEFT_SHARD_DIMS_MAX;
constexpr const char* kManifestFormat = "weft-checkpoint";

// ---- written ------------------------------------------------------------------------------------

std::string HexText(uint64_t number) {
  std::string text(16, '0');
  for (size_t i = 0; i < text.size(); ++i)
    text[i] = "0123456789abcdef"[number >> (60 - 4 * i) & 15];
  return text;
}

// ,"name":[ with an element per line ].
template <typename List, typename AsJson>
std::string ListText(const char* name, const List& list, AsJson as_json) {
  std::string text = StrCat(",\n\"", name, "\":[");
  bool first = true;
  for (const auto& one : list)
    text += StrCat(std::exchange(first, false) ? "\n" : ",\n", JsonLine(as_json(one)));
  return text + "]";
}

Json TensorAsJson(const SavedTensor& tensor) {
  Json kinds = Json::array();
  for (int kind = 0; kind < WEFT_SHARD_STATE_KINDS; ++kind) {
    const auto one = static_cast<weft_shard_state_kind_t>(kind);
    if (tensor.Has(one)) kinds.push_back(StateKindName(one));
  }
  Json cuts = Json::array();
  for (const TensorCut& cut : tensor.cuts)
    cuts.push_back({cut.rank, cut.begin, cut.end});
  return {{"name", tensor.name},
          {"shape", tensor.shape},
          {"dtype", tensor.dtype.name()},
          {"kinds", std::move(kinds)},
          {"cuts", std::move(cuts)}};
}

Json ScalarsAsJson(const std::pair<const std::string, weft_shard_state_scalars_t>& named) {
  const weft_shard_state_scalars_t& scalars = named.second;
  return {{"context", named.first},
          {"steps_begun", scalars.steps_begun},
          {"train_steps_begun", scalars.train_steps_begun},
          {"update_count", scalars.update_count},
          {"loss_scale", scalars.loss_scale},
          {"loss_scale_good_steps", scalars.loss_scale_good_steps},
          {"loss_scale_overflows_left", scalars.loss_scale_overflows_left},
          {"nonfinite_steps", scalars.nonfinite_steps}};
}

Json ValueAsJson(const SavedValue& value) {
  return {{"name", value.name},
          {"rank", value.rank},
          {"base64", absl::Base64Escape(ToAbsl(value.bytes))}};
}

// What both texts end with.
std::string StateText(const std::vector<SavedTensor>& tensors, const SavedScalars& scalars,
                      const std::vector<SavedValue>& values) {
  return ListText("tensors", tensors, TensorAsJson) + ListText("scalars", scalars, ScalarsAsJson) +
         ListText("values", values, ValueAsJson);
}

Json SealedFileAsJson(const SealedFile& file) {
  return {file.bytes, ChecksumText(file.checksum)};
}

// ---- read ---------------------------------------------------------------------------------------

class StateReader : public SortedJsonReader {
 public:
  using SortedJsonReader::SortedJsonReader;

  uint64_t NumberOf(const SortedJson& json, const char* name, uint64_t most = kNumberMax) {
    return Number(Member(json, name), most);
  }

  int64_t CountOf(const SortedJson& json, const char* name) {
    return static_cast<int64_t>(NumberOf(json, name));
  }

  // `digits` of hexadecimal.
  uint64_t Hex(const SortedJson& json, size_t digits) {
    const std::string text = Text(json);
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
    if (text.size() != digits || error != std::errc() || end != text.data() + text.size())
      FailValue(StrCat("no ", digits, " digits"));
    return number;
  }

  uint32_t Checksum(const SortedJson& json) { return static_cast<uint32_t>(Hex(json, 8)); }

  SealedFile Sealed(const SortedJson& json) {
    const std::vector<const SortedJson*> parts = List(json, 2, 2);
    if (!ok()) return {};
    return {.bytes = Number(*parts[0], kNumberMax), .checksum = Checksum(*parts[1])};
  }

  // Any number, which a JSON writer may have written as an integer.
  double Real(const SortedJson& json) {
    if (json.is_number()) return json.get<double>();
    FailValue("no number");
    return 0;
  }

  SavedTensor Tensor(const SortedJson& json, int ranks) {
    SavedTensor tensor{.name = Text(Member(json, "name"))};
    size_t count = 1;
    for (const SortedJson* const dimension : List(Member(json, "shape"), 0, kDimensionsMax)) {
      tensor.shape.push_back(static_cast<int64_t>(Number(*dimension, kNumberMax)));
      if (__builtin_mul_overflow(count, static_cast<size_t>(tensor.shape.back()), &count) ||
          count > kNumberMax)
        Fail(StrCat("a shape of tensor ", tensor.name, " that no memory can hold"));
    }
    const std::string type = Text(Member(json, "dtype"));
    if (const std::optional<ElementType> known = ElementType::OfName(type))
      tensor.dtype = *known;
    else
      Fail(StrCat("a type called \"", type, "\""));
    for (const SortedJson* const kind : List(Member(json, "kinds"), 1, WEFT_SHARD_STATE_KINDS)) {
      const std::string name = Text(*kind);
      const std::optional<weft_shard_state_kind_t> found = StateKindOf(name);
      if (found)
        tensor.kinds |= 1u << *found;
      else
        Fail(StrCat("a state called \"", name, "\""));
    }
    for (const SortedJson* const one : List(Member(json, "cuts"), 0, kCutsMax)) {
      const std::vector<const SortedJson*> parts = List(*one, 3, 3);
      if (!ok()) break;
      const TensorCut cut{.rank = static_cast<int>(Number(*parts[0], kCheckpointRanksMax)),
                          .begin = Number(*parts[1], count),
                          .end = Number(*parts[2], count)};
      if (cut.rank >= ranks || cut.begin > cut.end)
        Fail(StrCat("a cut of tensor ", tensor.name, " that is none"));
      // Readers go from one to the next.
      if (!tensor.cuts.empty() && cut.begin < tensor.cuts.back().begin)
        Fail(StrCat("cuts of tensor ", tensor.name, " that are not in order"));
      tensor.cuts.push_back(cut);
    }
    return tensor;
  }

  weft_shard_state_scalars_t Scalars(const SortedJson& json) {
    weft_shard_state_scalars_t scalars{};
    scalars.struct_size = sizeof(scalars);
    scalars.steps_begun = CountOf(json, "steps_begun");
    scalars.train_steps_begun = CountOf(json, "train_steps_begun");
    scalars.update_count = CountOf(json, "update_count");
    scalars.loss_scale = Real(Member(json, "loss_scale"));
    scalars.loss_scale_good_steps = CountOf(json, "loss_scale_good_steps");
    scalars.loss_scale_overflows_left = CountOf(json, "loss_scale_overflows_left");
    scalars.nonfinite_steps = CountOf(json, "nonfinite_steps");
    return scalars;
  }

  SavedValue Value(const SortedJson& json, int ranks) {
    SavedValue value{.name = Text(Member(json, "name"))};
    const SortedJson& rank = Member(json, "rank");
    if (rank.is_number_integer() && rank.get<int64_t>() >= -1 && rank.get<int64_t>() < ranks)
      value.rank = rank.get<int>();
    else
      Fail(StrCat("a value ", value.name, " of no rank"));
    const std::string text = Text(Member(json, "base64"));
    if (!absl::Base64Unescape(ToAbsl(text), &value.bytes))
      Fail(StrCat("a value ", value.name, " that is not in base 64"));
    return value;
  }

  // No sum of sizes that is made of them later wraps.
  void CheckBytes(const std::vector<SavedTensor>& tensors) {
    size_t bytes = 0;
    for (const SavedTensor& tensor : tensors) {
      for (int number = 0; number < WEFT_SHARD_STATE_KINDS; ++number) {
        const auto kind = static_cast<weft_shard_state_kind_t>(number);
        size_t of_kind = 0;
        if (tensor.Has(kind) &&
            (__builtin_mul_overflow(tensor.count(), DtypeSize(tensor.DtypeOf(kind)), &of_kind) ||
             __builtin_add_overflow(bytes, of_kind, &bytes) || bytes > kNumberMax)) {
          Fail(StrCat("tensors up to ", tensor.name, " that no memory can hold"));
          return;
        }
      }
    }
  }

  // What both texts end with.
  void State(const SortedJson& json, int ranks, std::vector<SavedTensor>* tensors,
             SavedScalars* scalars, std::vector<SavedValue>* values) {
    for (const SortedJson* const one : List(Member(json, "tensors"), 0, kTensorsMax)) {
      if (!ok()) return;
      tensors->push_back(Tensor(*one, ranks));
    }
    CheckBytes(*tensors);
    for (const SortedJson* const one : List(Member(json, "scalars"), 0, kTensorsMax)) {
      if (!ok()) return;
      scalars->emplace(Text(Member(*one, "context")), Scalars(*one));
    }
    for (const SortedJson* const one : List(Member(json, "values"), 0, kTensorsMax)) {
      if (!ok()) return;
      values->push_back(Value(*one, ranks));
    }
  }
};

// The object under the seal.
absl::StatusOr<SortedJson> OpenSealed(std::string_view file, std::string_view text,
                                      size_t bytes_max, StateReader* reader) {
  WEFT_RETURN_IF_ERROR(CheckSeal(file, text));
  SortedJson json = reader->Parse(text, bytes_max);
  const uint64_t version = reader->NumberOf(json, "version");
  if (version == 0) reader->Fail("version 0 of the format, which there is not");
  WEFT_RETURN_IF_ERROR(reader->status());
  if (version > kCheckpointVersion) {
    return MakeError(WEFT_UNSUPPORTED, StrCat(file, " has version ", version,
                                              " of the format; this weft reads up to ",
                                              kCheckpointVersion, ": use a newer one"));
  }
  return json;
}

}  // namespace

SealedFile SealedFileOf(std::string_view text) {
  return {.bytes = text.size(), .checksum = Crc32c(0, text.data(), text.size())};
}

std::string RecordText(const RankRecord& record) {
  Json checksums = Json::array();
  for (const uint32_t checksum : record.checksums)
    checksums.push_back(ChecksumText(checksum));
  return Sealed(StrCat("{\"version\":", kCheckpointVersion, ",\"job\":\"", HexText(record.job),
                       "\",\"step\":", record.step, ",\"rank\":", record.rank,
                       ",\"ranks\":", record.ranks, ",\n\"bytes\":", record.file_bytes,
                       ",\"chunk_bytes\":", kCheckpointChunkBytes,
                       ",\"crc32c_of_chunks\":", JsonLine(checksums),
                       StateText(record.tensors, record.scalars, record.values)));
}

std::string ManifestText(const Manifest& manifest) {
  std::string text = StrCat(
      "{\"format\":\"", kManifestFormat, "\",\"version\":", kCheckpointVersion, ",\"job\":\"",
      HexText(manifest.job), "\",\n\"step\":", manifest.step, ",\"ranks\":", manifest.ranks,
      ",\"config\":", JsonLine(SealedFileAsJson(manifest.config)));
  text += ListText("records", manifest.records, SealedFileAsJson);
  return Sealed(text + StateText(manifest.tensors, manifest.scalars, manifest.values));
}

absl::StatusOr<RankRecord> ReadRecord(std::string_view file, std::string_view text) {
  StateReader reader(file);
  WEFT_ASSIGN_OR_RETURN(const SortedJson json, OpenSealed(file, text, kRecordTextMax, &reader));
  RankRecord record;
  record.job = reader.Hex(reader.Member(json, "job"), 16);
  record.step = reader.CountOf(json, "step");
  record.ranks = static_cast<int>(reader.NumberOf(json, "ranks", kCheckpointRanksMax));
  record.rank = static_cast<int>(reader.NumberOf(json, "rank", kCheckpointRanksMax));
  if (record.rank >= record.ranks) reader.Fail("a rank that its ranks have not");
  record.file_bytes = reader.NumberOf(json, "bytes");
  if (reader.NumberOf(json, "chunk_bytes") != kCheckpointChunkBytes)
    reader.Fail("another size of chunks");
  const size_t chunks = (record.file_bytes + kCheckpointChunkBytes - 1) / kCheckpointChunkBytes;
  for (const SortedJson* const one :
       reader.List(reader.Member(json, "crc32c_of_chunks"), chunks, chunks))
    record.checksums.push_back(reader.Checksum(*one));
  reader.State(json, record.ranks, &record.tensors, &record.scalars, &record.values);
  WEFT_RETURN_IF_ERROR(reader.status());
  return record;
}

absl::StatusOr<Manifest> ReadManifest(std::string_view file, std::string_view text) {
  StateReader reader(file);
  WEFT_ASSIGN_OR_RETURN(const SortedJson json, OpenSealed(file, text, kManifestTextMax, &reader));
  if (reader.Text(reader.Member(json, "format")) != kManifestFormat)
    reader.Fail("another format than weft's checkpoints");
  Manifest manifest;
  manifest.job = reader.Hex(reader.Member(json, "job"), 16);
  manifest.step = reader.CountOf(json, "step");
  manifest.ranks = static_cast<int>(reader.NumberOf(json, "ranks", kCheckpointRanksMax));
  manifest.config = reader.Sealed(reader.Member(json, "config"));
  const auto ranks = static_cast<size_t>(manifest.ranks);
  for (const SortedJson* const one : reader.List(reader.Member(json, "records"), ranks, ranks)) {
    if (!reader.ok()) break;
    manifest.records.push_back(reader.Sealed(*one));
  }
  reader.State(json, manifest.ranks, &manifest.tensors, &manifest.scalars, &manifest.values);
  WEFT_RETURN_IF_ERROR(reader.status());
  return manifest;
}

}  // namespace weft
