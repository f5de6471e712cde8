// Reads the texts. Tensors are taken one by one while a text is parsed: a million of them as JSON values would need gigabytes.
#include <charconv>
#include <limits>
#include <set>
#include <unordered_set>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/json_reader.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/checkpoint/manifest.h"
#include "shard/checkpoint/sealed_text.h"

namespace weft {
namespace {

constexpr uint64_t kNumberMax = kCheckpointNumberMax;

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

  SavedTensor Tensor(const SortedJson& json) {
    SavedTensor tensor{.name = Text(Member(json, "name"))};
    size_t count = 1;
    for (const SortedJson* const dimension :
         List(Member(json, "shape"), 0, kCheckpointDimensionsMax)) {
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
    if (const SortedJson& frozen = Member(json, "frozen", /*optional=*/true); !frozen.is_null())
      tensor.frozen = Flag(frozen);
    if (const SortedJson& kind = Member(json, "optimizer", /*optional=*/true); !kind.is_null())
      tensor.optimizer = Optimizer(kind);
    for (const SortedJson* const one : List(Member(json, "cuts"), 0, kCheckpointCutsMax)) {
      const std::vector<const SortedJson*> parts = List(*one, 3, 3);
      if (!ok()) break;
      const TensorCut cut{.rank = static_cast<int>(Number(*parts[0], kCheckpointRanksMax)),
                          .begin = Number(*parts[1], count),
                          .end = Number(*parts[2], count)};
      if (cut.begin > cut.end) Fail(StrCat("a cut of tensor ", tensor.name, " that is none"));
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

  weft_optimizer_kind_t Optimizer(const SortedJson& json) {
    const std::string name = Text(json);
    const std::optional<weft_optimizer_kind_t> found = OptimizerOf(name);
    if (!found) Fail(StrCat("an optimizer called \"", name, "\""));
    return found.value_or(WEFT_OPTIMIZER_ADAMW);
  }

  std::vector<SavedGroup> Groups(const SortedJson& json) {
    std::vector<SavedGroup> groups;
    for (const SortedJson* const one : List(Member(json, "groups"), 1, kCheckpointListMax)) {
      if (!ok()) break;
      SavedGroup group{.kind = Optimizer(Member(*one, "kind"))};
      const SortedJson& numbers = Member(*one, "numbers");
      if (!numbers.is_object()) FailValue("no object");
      if (!ok()) break;
      for (const auto& [name, number] : numbers.items())
        group.numbers.emplace_back(name, Real(number));
      groups.push_back(std::move(group));
    }
    return groups;
  }

  SavedValue Value(const SortedJson& json, int ranks) {
    SavedValue value{.name = Text(Member(json, "name"))};
    const SortedJson& rank = Member(json, "rank");
    if (rank.is_number_integer() && rank.get<int64_t>() >= -1 && rank.get<int64_t>() < ranks)
      value.rank = rank.get<int>();
    else
      Fail(StrCat("a value ", value.name, " of no rank"));
    if (json.is_object() && json.contains("crc32c")) {
      value.place = ValuePlace{.begin = NumberOf(json, "begin"),
                               .bytes = NumberOf(json, "bytes", kCheckpointValueBytesMax),
                               .checksum = Checksum(Member(json, "crc32c"))};
      return value;
    }
    const std::string text = Text(Member(json, "base64"));
    if (!absl::Base64Unescape(ToAbsl(text), &value.bytes))
      Fail(StrCat("a value ", value.name, " that is not in base 64"));
    if (value.bytes.size() > kCheckpointValueBytesMax)
      Fail(StrCat("a value ", value.name, " of more than ", kCheckpointValueBytesMax, " bytes"));
    return value;
  }
};

// Of tensors that are complete but for what the rest of the text says.
void CheckTensors(const std::vector<SavedTensor>& tensors, int ranks, StateReader* reader) {
  size_t bytes = 0;
  for (const SavedTensor& tensor : tensors) {
    for (const TensorCut& cut : tensor.cuts) {
      if (cut.rank >= ranks) {
        reader->Fail(StrCat("a cut of tensor ", tensor.name, " of rank ", cut.rank, " of ", ranks));
        return;
      }
    }
    // No sum of sizes that is made of them later wraps.
    for (int number = 0; number < WEFT_SHARD_STATE_KINDS; ++number) {
      const auto kind = static_cast<weft_shard_state_kind_t>(number);
      size_t of_kind = 0;
      if (tensor.Has(kind) &&
          (__builtin_mul_overflow(tensor.count(), DtypeSize(tensor.DtypeOf(kind)), &of_kind) ||
           __builtin_add_overflow(bytes, of_kind, &bytes) || bytes > kNumberMax)) {
        reader->Fail(StrCat("tensors up to ", tensor.name, " that no memory can hold"));
        return;
      }
    }
  }
}

// Each file of values is read as one without holes, whose length nobody else says.
void CheckPlaces(const std::vector<SavedValue>& values, StateReader* reader) {
  std::map<int, size_t> ends;  // by writer
  for (const SavedValue& value : values) {
    if (!value.place) continue;
    size_t& end = ends[value.writer()];
    if (value.place->begin != end)
      reader->Fail(
          StrCat("a hole or an overlap before value ", value.name, " in a file of values"));
    end += value.place->bytes;
    if (end > kNumberMax) reader->Fail("values that no memory can hold");
    if (!reader->ok()) return;
  }
}

// The object under the seal, and what both texts end with: its tensors, scalars, optimizers and values.
template <typename Text>
absl::StatusOr<SortedJson> OpenSealed(std::string_view file, std::string_view sealed,
                                      StateReader* reader, Text* text) {
  WEFT_RETURN_IF_ERROR(CheckSeal(file, sealed));
  // What tensors of a newer version are like is not known.
  StateReader of_tensors(file);
  SortedJson json =
      reader->Parse(sealed, kCheckpointTextMax,
                    {.list = "tensors", .take = [&](const std::string&, const SortedJson& tensor) {
                       if (text->tensors.size() == kCheckpointTensorsMax)
                         of_tensors.Fail(StrCat("more than ", kCheckpointTensorsMax, " tensors"));
                       if (of_tensors.ok()) text->tensors.push_back(of_tensors.Tensor(tensor));
                     }});
  const uint64_t version = reader->NumberOf(json, "version");
  if (version == 0) reader->Fail("version 0 of the format, which there is not");
  WEFT_RETURN_IF_ERROR(reader->status());
  if (version > kCheckpointVersion) {
    return MakeError(WEFT_UNSUPPORTED, StrCat(file, " has version ", version,
                                              " of the format; this weft reads up to ",
                                              kCheckpointVersion, ": use a newer one"));
  }
  WEFT_RETURN_IF_ERROR(of_tensors.status());
  // All objects of it were taken.
  if (!reader->List(reader->Member(json, "tensors"), 0, kCheckpointListMax).empty())
    reader->Fail("a tensor that is no object");
  const auto ranks = static_cast<int>(reader->NumberOf(json, "ranks", kCheckpointRanksMax));
  CheckTensors(text->tensors, ranks, reader);
  const auto for_each = [&](const char* name, bool optional, const auto& take) {
    const SortedJson& list = reader->Member(json, name, optional);
    if (list.is_null()) return;
    for (const SortedJson* const one : reader->List(list, 0, kCheckpointListMax)) {
      if (!reader->ok()) return;
      take(*one);
    }
  };
  const auto context_of = [&](const SortedJson& one, const auto& known) {
    std::string context = reader->Text(reader->Member(one, "context"));
    if (known.count(context) > 0)
      reader->Fail(StrCat("two contexts \"", context, "\" in one list"));
    return context;
  };
  for_each("scalars", false, [&](const SortedJson& one) {
    text->scalars.emplace(context_of(one, text->scalars), reader->Scalars(one));
  });
  for_each("optimizers", version < 2, [&](const SortedJson& one) {
    text->optimizers.emplace(context_of(one, text->optimizers), reader->Groups(one));
  });
  for_each("values", false,
           [&](const SortedJson& one) { text->values.push_back(reader->Value(one, ranks)); });
  if (reader->ok()) CheckPlaces(text->values, reader);
  WEFT_RETURN_IF_ERROR(reader->status());
  return json;
}

// Of a manifest, where each is one of all ranks.
void CheckWhole(const Manifest& manifest, StateReader* reader) {
  std::unordered_set<std::string_view> names;
  for (const SavedTensor& tensor : manifest.tensors) {
    if (!names.insert(tensor.name).second) reader->Fail(StrCat("two tensors called ", tensor.name));
    if (const size_t missing = FirstMissing(tensor); missing < tensor.count())
      reader->Fail(StrCat("no rank that has element ", missing, " of tensor ", tensor.name));
    if (!reader->ok()) return;
  }
  std::set<std::pair<std::string_view, int>> values;
  for (const SavedValue& value : manifest.values) {
    if (!values.emplace(value.name, value.rank).second)
      reader->Fail(StrCat("two values called ", value.name, " of one rank"));
  }
}

}  // namespace

absl::StatusOr<RankRecord> ReadRecord(std::string_view file, std::string_view text) {
  StateReader reader(file);
  RankRecord record;
  WEFT_ASSIGN_OR_RETURN(const SortedJson json, OpenSealed(file, text, &reader, &record));
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
  for (const SavedValue& value : record.values) {
    if (value.place && value.writer() != record.rank)
      reader.Fail(StrCat("a value ", value.name, " in a file of another rank"));
  }
  WEFT_RETURN_IF_ERROR(reader.status());
  return record;
}

absl::StatusOr<Manifest> ReadManifest(std::string_view file, std::string_view text) {
  StateReader reader(file);
  Manifest manifest;
  WEFT_ASSIGN_OR_RETURN(const SortedJson json, OpenSealed(file, text, &reader, &manifest));
  if (reader.Text(reader.Member(json, "format")) != kManifestFormat)
    reader.Fail("another format than weft's checkpoints");
  manifest.job = reader.Hex(reader.Member(json, "job"), 16);
  manifest.step = reader.CountOf(json, "step");
  manifest.ranks = static_cast<int>(reader.NumberOf(json, "ranks", kCheckpointRanksMax));
  manifest.config = reader.Sealed(reader.Member(json, "config"));
  const auto ranks = static_cast<size_t>(manifest.ranks);
  for (const SortedJson* const one : reader.List(reader.Member(json, "records"), ranks, ranks)) {
    if (!reader.ok()) break;
    manifest.records.push_back(reader.Sealed(*one));
  }
  if (reader.ok()) CheckWhole(manifest, &reader);
  WEFT_RETURN_IF_ERROR(reader.status());
  return manifest;
}

}  // namespace weft
