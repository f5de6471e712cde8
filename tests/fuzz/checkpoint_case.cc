// Files are strings, which are read where they are: an input takes some tens of microseconds.
#include "tests/fuzz/checkpoint_case.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/crc32c.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wire.h"
#include "comm/kernels/dtype.h"
#include "shard/checkpoint/checkpoint_names.h"
#include "shard/checkpoint/restore.h"
#include "shard/checkpoint/safetensors.h"
#include "shard/checkpoint/saved_checkpoint.h"
#include "shard/checkpoint/sealed_text.h"
#include "shard/checkpoint/snapshot.h"
#include "shard/checkpoint/tensor_export.h"
#include "tests/fuzz/json_mutation.h"

namespace weft::test {
namespace {

using PlainJson = nlohmann::json;
using Random = std::mt19937_64;

constexpr int kRanks = 2;
constexpr char kBetweenPieces = '\xff';
constexpr const char* kPath = "c";
constexpr const char* kExported = "e";
constexpr size_t kDataBytesMax = 4096;

// Files in memory: those of the checkpoint, which are read where they are, and those that are made.
class TextFiles : public Files {
 public:
  using Contents = std::map<std::string, std::string, std::less<>>;

  explicit TextFiles(const Contents& contents) : contents_(contents) {}

  const Contents& made() const { return made_; }

  absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) override {
    for (const Contents* const files : std::initializer_list<const Contents*>{&contents_, &made_}) {
      const auto found = files->find(path);
      if (found != files->end()) return std::make_unique<Readable>(found->second);
    }
    return FileError(ENOENT, path);
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path,
                                                       uint64_t /*bytes_expected*/) override {
    return std::make_unique<Writable>(&made_[path]);
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    made_[to] = std::move(made_[from]);
    return Remove(from);
  }

  absl::Status Link(const std::string& from, const std::string& /*to*/) override {
    return FileError(EROFS, from);
  }

  absl::StatusOr<FileKind> KindOf(const std::string& path) override {
    return FileError(EROFS, path);
  }

  absl::Status Remove(const std::string& path) override {
    made_.erase(path);
    return absl::OkStatus();
  }

  absl::Status RemoveDirectory(const std::string& path) override { return FileError(EROFS, path); }

  absl::Status MakeDirectory(const std::string& path) override { return FileError(EROFS, path); }

  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    return FileError(EROFS, path);
  }

  absl::Status SyncDirectory(const std::string& /*path*/) override { return absl::OkStatus(); }

 private:
  class Readable : public ReadableFile {
   public:
    explicit Readable(std::string_view text) : text_(text) {}

    absl::StatusOr<uint64_t> Size() override { return text_.size(); }

    absl::Status ReadAt(uint64_t offset, void* data, size_t bytes) override {
      if (offset > text_.size() || bytes > text_.size() - offset)
        return MakeError(WEFT_CORRUPT, "the file ends before");
      if (bytes > 0) std::memcpy(data, text_.data() + offset, bytes);
      return absl::OkStatus();
    }

   private:
    const std::string_view text_;
  };

  class Writable : public WritableFile {
   public:
    explicit Writable(std::string* text) : text_(text) {}

    absl::Status Write(const void* data, size_t bytes) override {
      text_->append(static_cast<const char*>(data), bytes);
      return absl::OkStatus();
    }

    absl::Status Sync() override { return absl::OkStatus(); }

    absl::Status Close() override { return absl::OkStatus(); }

   private:
    std::string* const text_;
  };

  const Contents& contents_;
  Contents made_;
};

std::string PathOf(CheckpointFile file) {
  switch (file) {
    case CheckpointFile::kManifest:
      return JoinPath(kPath, kManifestName);
    case CheckpointFile::kRecord0:
    case CheckpointFile::kRecord1:
      return JoinPath(kPath, RecordName(file == CheckpointFile::kRecord1 ? 1 : 0));
    default:
      return JoinPath(kPath, TensorFileName(file == CheckpointFile::kTensors1 ? 1 : 0));
  }
}

std::string RecordPath(int rank) {
  return JoinPath(kPath, RecordName(rank));
}

std::string TensorsPath(int rank) {
  return JoinPath(kPath, TensorFileName(rank));
}

std::string ValuesPath(int rank) {
  return JoinPath(kPath, ValueFileName(rank));
}

// A small one, and two that stand in a file.
std::vector<SavedValue> ValuesOf(int rank) {
  return {{.name = "v", .rank = rank, .bytes = "xyz"},
          {.name = "l", .rank = rank, .bytes = std::string(1100, static_cast<char>('a' + rank))},
          {.name = "m", .rank = rank, .bytes = std::string(1200, static_cast<char>('k' + rank))}};
}

// A matrix with all that there may be, and a scalar that one rank has. No byte is 0xff, which stands between pieces.
MadeUpModel SmallModel() {
  MadeUpModel model(1, 2);
  for (size_t i = model.tensors.size(); i-- > 0;) {
    if (i == 0 || model.tensors[i].shape.empty()) continue;
    model.tensors.erase(model.tensors.begin() + static_cast<ptrdiff_t>(i));
    model.contents.erase(model.contents.begin() + static_cast<ptrdiff_t>(i));
  }
  model.tensors[0].name = "w";
  model.tensors[1].name = "b";
  for (std::vector<std::string>& kinds : model.contents) {
    for (std::string& bytes : kinds) {
      for (char& byte : bytes)
        byte = static_cast<char>(byte & 0x7f);
    }
  }
  return model;
}

// As records have it.
std::string BytesText(const std::string& file) {
  return StrCat("\"bytes\":", file.size(), ",");
}

// As records have it of a file that is one chunk.
std::string ChunksText(const std::string& file) {
  return StrCat("[\"", ChecksumText(Crc32c(0, file.data(), file.size())), "\"]");
}

// As manifests have it.
std::string RecordEntry(const std::string& record) {
  return StrCat("[", record.size(), ",\"", ChecksumText(Crc32c(0, record.data(), record.size())),
                "\"]");
}

void ReplaceAll(std::string_view from, std::string_view to, std::string* text) {
  for (size_t at = 0; (at = text->find(from, at)) != std::string::npos; at += to.size())
    text->replace(at, from.size(), to);
}

// What stands before the seal.
std::string BeforeSeal(const std::string& sealed) {
  return sealed.substr(0, sealed.rfind(",\"crc32c\":"));
}

// Where an entry of a safetensors header begins and ends, if it says so.
std::optional<std::pair<size_t, size_t>> PlaceOf(const PlainJson& entry) {
  if (!entry.is_object() || !entry.contains("data_offsets")) return std::nullopt;
  const PlainJson& place = entry["data_offsets"];
  if (!place.is_array() || place.size() != 2 || !place[0].is_number_unsigned() ||
      !place[1].is_number_unsigned())
    return std::nullopt;
  return std::pair(place[0].get<size_t>(), place[1].get<size_t>());
}

// Where the last of the entries ends, of a header that has no spaces.
size_t DataBytes(const std::string& header) {
  static constexpr std::string_view kPlace = "\"data_offsets\":[";
  size_t most = 0;
  for (size_t at = 0; (at = header.find(kPlace, at)) != std::string::npos;) {
    at = std::min(header.find(',', at + kPlace.size()), header.size());
    size_t end = 0;
    std::from_chars(header.data() + std::min(at + 1, header.size()), header.data() + header.size(),
                    end);
    most = std::max(most, end);
  }
  return most;
}

// A safetensors file of this header, with as much data as it speaks of, if that is little: first the data of `whole`.
std::string TensorsFile(const std::string& header, const std::string& whole) {
  const uint64_t whole_header = WireReader(whole).U64();
  std::string data = whole.substr(kSafetensorsLengthBytes + whole_header);
  const size_t end = DataBytes(header);
  if (end <= kDataBytesMax) data.resize(end, 'x');
  WireWriter file;
  file.U64(header.size());
  file.Bytes(header);
  file.Bytes(data);
  return file.Take();
}

// ---- what the files say, found out in another way -----------------------------------------------

// The bytes of an element, as one of the cuts that have it says: all answers that there are.
class Teller {
 public:
  explicit Teller(const std::map<std::string, std::string, std::less<>>& contents)
      : manifest_(PlainJson::parse(contents.find(PathOf(CheckpointFile::kManifest))->second)) {
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::string& file = contents.find(TensorsPath(rank))->second;
      const uint64_t header = WireReader(file).U64();
      // It may be a file that was not looked at.
      const bool whole =
          file.size() >= kSafetensorsLengthBytes && header <= file.size() - kSafetensorsLengthBytes;
      headers_.push_back(PlainJson::parse(
          whole ? file.substr(kSafetensorsLengthBytes, header) : std::string(), nullptr, false));
      data_.push_back(whole ? file.substr(kSafetensorsLengthBytes + header) : std::string());
    }
  }

  std::vector<std::string> Element(const std::string& tensor, weft_shard_state_kind_t kind,
                                   size_t at, size_t element_bytes) const {
    std::vector<std::string> answers;
    const PlainJson* const found = Tensor(tensor);
    if (found == nullptr) return answers;
    for (const PlainJson& cut : (*found)["cuts"]) {
      const auto rank = cut[0].get<size_t>();
      const auto begin = cut[1].get<size_t>();
      const auto end = cut[2].get<size_t>();
      if (at < begin || at >= end || rank >= headers_.size()) continue;
      const std::string name = EntryName(tensor, kind, begin, end);
      if (!headers_[rank].contains(name)) continue;
      const auto place = PlaceOf(headers_[rank][name]);
      const size_t offset = (at - begin) * element_bytes;
      if (!place || place->second > data_[rank].size() || place->first > place->second ||
          offset + element_bytes > place->second - place->first)
        continue;
      answers.push_back(data_[rank].substr(place->first + offset, element_bytes));
    }
    return answers;
  }

  // The first of the scalars of that context.
  bool HasScalars(const weft_shard_state_scalars_t& scalars) const {
    for (const PlainJson& one : manifest_["scalars"]) {
      if (one["context"] != "") continue;
      return one["update_count"].get<int64_t>() == scalars.update_count &&
             one["loss_scale"].get<double>() == scalars.loss_scale &&
             one["nonfinite_steps"].get<int64_t>() == scalars.nonfinite_steps;
    }
    return false;
  }

 private:
  const PlainJson* Tensor(const std::string& name) const {
    for (const PlainJson& tensor : manifest_["tensors"]) {
      if (tensor["name"] == name) return &tensor;
    }
    return nullptr;
  }

  const PlainJson manifest_;
  std::vector<PlainJson> headers_;  // by rank
  std::vector<std::string> data_;
};

// What a source has got that the files do not say; empty: nothing.
std::string Untold(const Teller& teller, MadeUpState* state, uint32_t kinds) {
  for (size_t i = 0; i < state->tensors().size(); ++i) {
    const SavedTensor& tensor = state->tensors()[i];
    for (int number = 0; number < WEFT_SHARD_STATE_KINDS; ++number) {
      const auto kind = static_cast<weft_shard_state_kind_t>(number);
      if (!tensor.Has(kind) || (kinds >> number & 1) == 0) continue;
      const absl::StatusOr<StatePart> part = state->Part(i, kind);
      const size_t size = DtypeSize(tensor.DtypeOf(kind));
      for (size_t at = 0; at < part->count; ++at) {
        const std::string got(static_cast<const char*>(part->data) + at * size, size);
        const std::vector<std::string> told =
            teller.Element(tensor.name, kind, part->begin + at, size);
        if (std::find(told.begin(), told.end(), got) != told.end()) continue;
        return StrCat("element ", part->begin + at, " of ", StateKindName(kind), " of ",
                      tensor.name, " was restored as no file has it");
      }
    }
  }
  if (kinds != WEFT_SHARD_STATE_VALUES && !teller.HasScalars(state->scalars))
    return "numbers were restored that the manifest has not";
  return "";
}

// A value of a file that is not there where the manifest says it is, or is not as it was; empty: there is none. Nobody can make a checksum right for other bytes.
std::string UntoldValue(const std::map<std::string, std::string, std::less<>>& contents,
                        const SavedCheckpoint& saved) {
  for (const SavedValue& value : saved.manifest().values) {
    const absl::StatusOr<std::string> bytes = saved.Value(value);
    if (!bytes.ok() || !value.place) continue;
    const auto file = contents.find(ValuesPath(value.writer()));
    if (file == contents.end() ||
        file->second.compare(value.place->begin, value.place->bytes, *bytes) != 0 ||
        bytes->size() != value.place->bytes)
      return StrCat("value ", value.name, " was read as no file has it");
  }
  return "";
}

// What an exported file has that the others do not say; empty: nothing.
std::string UntoldOfExport(const Teller& teller, const std::string& file) {
  const absl::StatusOr<SafetensorsLayout> layout = ReadSafetensorsHeader(file, file.size());
  if (!layout.ok()) return StrCat("exported, but ", FromAbsl(layout.status().message()));
  for (const SafetensorsEntry& entry : layout->entries) {
    const size_t size = DtypeSize(entry.dtype);
    for (size_t at = 0; at < (entry.end - entry.begin) / size; ++at) {
      const std::string got = file.substr(layout->data_begin + entry.begin + at * size, size);
      const std::vector<std::string> told =
          teller.Element(entry.name, WEFT_SHARD_STATE_VALUE, at, size);
      if (std::find(told.begin(), told.end(), got) == told.end())
        return StrCat("element ", at, " of ", entry.name, " was exported as no file has it");
    }
  }
  return "";
}

}  // namespace

CheckpointCase::CheckpointCase() : model_(SmallModel()) {
  Manifest manifest{.job = 7, .step = 12, .ranks = kRanks};
  manifest.tensors = model_.tensors;
  for (int rank = 0; rank < kRanks; ++rank) {
    MadeUpState state(model_, rank, kRanks, 0);
    const Snapshot snapshot = *TakeSnapshot({{"", &state}}, ValuesOf(rank));
    std::string tensors = *SafetensorsHeader(snapshot.entries);
    for (size_t i = 0; i < snapshot.entries.size(); ++i) {
      tensors.append(static_cast<const char*>(snapshot.bytes[i].data),
                     snapshot.entries[i].end - snapshot.entries[i].begin);
    }
    RankRecord record{.job = 7,
                      .step = 12,
                      .rank = rank,
                      .ranks = kRanks,
                      .tensors = snapshot.tensors,
                      .scalars = snapshot.scalars,
                      .values = *PlaceValues(snapshot.values)};
    record.file_bytes = tensors.size();
    record.checksums = {Crc32c(0, tensors.data(), tensors.size())};
    for (size_t i = 0; i < record.tensors.size(); ++i) {
      for (TensorCut& cut : record.tensors[i].cuts) {
        cut.rank = rank;
        manifest.tensors[i].cuts.push_back(cut);
      }
    }
    const std::string text = RecordText(record);
    manifest.records.push_back(SealedFileOf(text));
    manifest.scalars.insert(snapshot.scalars.begin(), snapshot.scalars.end());
    manifest.values.insert(manifest.values.end(), record.values.begin(), record.values.end());
    whole_[ValuesPath(rank)] = snapshot.values[1].bytes + snapshot.values[2].bytes;
    whole_[RecordPath(rank)] = text;
    whole_[TensorsPath(rank)] = std::move(tensors);
  }
  const std::string config = "{}\n";
  manifest.config = SealedFileOf(config);
  whole_[JoinPath(kPath, kConfigName)] = config;
  whole_[PathOf(CheckpointFile::kManifest)] = ManifestText(manifest);
}

std::string CheckpointCase::Piece(CheckpointFile file, bool verbatim) const {
  const std::string& text = whole_.find(PathOf(file))->second;
  if (verbatim) return text;
  if (file != CheckpointFile::kTensors0 && file != CheckpointFile::kTensors1)
    return BeforeSeal(text);
  return text.substr(kSafetensorsLengthBytes, WireReader(text).U64());
}

std::vector<std::string> CheckpointCase::Seeds() const {
  std::vector<std::string> seeds;
  constexpr unsigned kAll = (1u << kCheckpointFiles) - 1;
  for (const unsigned how : {0u, kPart, kVerify, kVerbatim, kVerbatim | kVerify}) {
    for (const unsigned flags : {1u, 2u, 4u, 8u, 16u, 9u, 10u, kAll}) {
      std::string seed(1, static_cast<char>(flags | how));
      for (int number = 0; number < kCheckpointFiles; ++number) {
        if ((flags >> number & 1) == 0) continue;
        if (seed.size() > 1) seed += kBetweenPieces;
        seed += Piece(static_cast<CheckpointFile>(number), (how & kVerbatim) != 0);
      }
      seeds.push_back(std::move(seed));
    }
  }
  // Names are read of any text.
  for (const std::string& name : {DirectoryName({.run = 3, .step = 120}), FailureName(1)})
    seeds.push_back(static_cast<char>(kVerbatim | 1u) + name);
  return seeds;
}

CheckpointCase::Contents CheckpointCase::Make(const std::vector<std::string>& pieces,
                                              unsigned flags) const {
  Contents contents = whole_;
  size_t next = 0;
  bool replaced[kCheckpointFiles] = {};
  for (int number = 0; number < kCheckpointFiles; ++number) {
    if ((flags >> number & 1) == 0 || next == pieces.size()) continue;
    const auto file = static_cast<CheckpointFile>(number);
    const std::string& piece = pieces[next++];
    std::string& text = contents.find(PathOf(file))->second;
    replaced[number] = true;
    const bool tensors = file == CheckpointFile::kTensors0 || file == CheckpointFile::kTensors1;
    text = tensors && (flags & kVerbatim) == 0 ? TensorsFile(piece, text) : piece;
  }
  if ((flags & kVerbatim) != 0) return contents;
  // What the texts say of the files as they were is said of them as they are.
  std::string& manifest = contents.find(PathOf(CheckpointFile::kManifest))->second;
  if (!replaced[0]) manifest = BeforeSeal(manifest);
  for (int rank = 0; rank < kRanks; ++rank) {
    if (!replaced[1 + rank] && !replaced[3 + rank]) continue;
    std::string& record = contents.find(RecordPath(rank))->second;
    if (!replaced[1 + rank]) record = BeforeSeal(record);
    const std::string& tensors = contents.find(TensorsPath(rank))->second;
    const std::string& whole_tensors = whole_.find(TensorsPath(rank))->second;
    ReplaceAll(BytesText(whole_tensors), BytesText(tensors), &record);
    ReplaceAll(ChunksText(whole_tensors), ChunksText(tensors), &record);
    record = Sealed(std::move(record));
    ReplaceAll(RecordEntry(whole_.find(RecordPath(rank))->second), RecordEntry(record), &manifest);
  }
  manifest = Sealed(std::move(manifest));
  return contents;
}

CheckpointOutcome CheckpointCase::Look(const Contents& contents, unsigned flags) const {
  CheckpointOutcome outcome;
  TextFiles files(contents);
  const absl::StatusOr<SavedCheckpoint> saved = SavedCheckpoint::Open(files, kPath);
  outcome.opened = saved.ok();
  if (!saved.ok()) return outcome;
  static_cast<void>(saved->data_bytes());
  outcome.wrong = UntoldValue(contents, *saved);
  if (!outcome.wrong.empty()) return outcome;
  if ((flags & kVerify) != 0) {
    outcome.verified = saved->VerifyAll().ok();
    if (ExportTensors(*saved, files, kExported).ok())
      outcome.wrong = UntoldOfExport(Teller(contents), files.made().find(kExported)->second);
    return outcome;
  }
  const bool part = (flags & kPart) != 0;
  MadeUpState state(model_, part ? 1 : 0, part ? 3 : 1, 1);
  state.Clear();
  const std::vector<NamedSource> sources = {{"", &state}};
  static_cast<void>(WantedTensors(*saved, sources));
  for (const uint32_t kinds : {uint32_t{WEFT_SHARD_STATE_ALL}, uint32_t{WEFT_SHARD_STATE_VALUES}}) {
    if (!CheckFits(*saved, sources, kinds).ok()) continue;
    outcome.restored = Restore(*saved, sources, kinds).ok();
    if (outcome.restored) outcome.wrong = Untold(Teller(contents), &state, kinds);
    break;
  }
  return outcome;
}

CheckpointOutcome CheckpointCase::Try(std::string_view input) const {
  if (input.empty()) return {};
  const auto flags = static_cast<unsigned char>(input[0]);
  std::vector<std::string> pieces;
  for (size_t at = 1; at <= input.size();) {
    const size_t end = std::min(input.find(kBetweenPieces, at), input.size());
    pieces.emplace_back(input.substr(at, end - at));
    at = end + 1;
  }
  if ((flags & kVerbatim) != 0) {  // readers of one text, of anything
    for (const std::string& piece : pieces) {
      static_cast<void>(ReadSafetensorsHeader(piece, piece.size()));
      static_cast<void>(ParseDirectoryName(piece));
      static_cast<void>(RankOfFailureName(piece));
    }
  }
  return Look(Make(pieces, flags), flags);
}

std::string CheckpointCase::Mutate(std::string input, std::mt19937_64& random) {
  static const MutationHints hints{
      .purposes = {kVerify, kPart},
      .texts = {"\"w\"", "\"b\"", "\"\"", "\"value\"", "\"main\"", "\"moment1\"", "\"moment2\"",
                "\"F32\"", "\"BF16\"", "\"F64\"", "\"U8\"", "\"BOOL\"", "\"shape\"", "\"ffffffff\"",
                "\"\\u0000\"", "\"w@value[0:6)\"", "\"w@value[0:3)\"", "\"crc32c\""}};
  return MutateJson(std::move(input), hints, random);
}

}  // namespace weft::test
