// A part is cut at the borders of what ranks have written; pieces are read rank by rank, so that each file is opened once.
#include "shard/checkpoint/saved_checkpoint.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "shard/checkpoint/checkpoint_names.h"
#include "shard/checkpoint/chunk_reader.h"
#include "shard/checkpoint/safetensors.h"

namespace weft {
namespace {

// Each has what its header says in memory, and a descriptor.
constexpr size_t kOpenFilesMax = 64;

}  // namespace

// The file of one rank, with its record read and its header checked; or one of others', which has no record.
class SavedCheckpoint::RankFile {
 public:
  static absl::StatusOr<std::unique_ptr<RankFile>> Open(const SavedCheckpoint& checkpoint,
                                                        int rank);
  static absl::StatusOr<std::unique_ptr<RankFile>> OpenOthers(Files& files,
                                                              const TensorFile& known);

  // Where an entry's bytes are in the file; CORRUPT if there is none of that name, or it is of another type or length.
  absl::StatusOr<size_t> BeginOf(const std::string& entry, ElementType dtype, size_t count) const;

  absl::Status Read(std::vector<FileRange> ranges) {
    if (checksums_.empty()) return ReadUnchecked(ranges);
    return ChunkReader(*file_, path_, file_bytes_, checksums_).Read(std::move(ranges));
  }

  size_t file_bytes() const { return file_bytes_; }

 private:
  absl::Status ReadUnchecked(const std::vector<FileRange>& ranges) {
    for (const FileRange& range : ranges)
      WEFT_RETURN_IF_ERROR(file_->ReadAt(range.begin, range.to, range.bytes));
    return absl::OkStatus();
  }

  void TakeEntries(const SafetensorsLayout& layout) {
    data_begin_ = layout.data_begin;
    for (const SafetensorsEntry& entry : layout.entries)
      entries_.emplace(entry.name, entry);
  }

  std::string path_;
  std::unique_ptr<ReadableFile> file_;
  size_t file_bytes_ = 0;
  std::vector<uint32_t> checksums_;  // empty: it is others'
  size_t data_begin_ = 0;
  std::unordered_map<std::string, SafetensorsEntry> entries_;
};

absl::StatusOr<std::unique_ptr<SavedCheckpoint::RankFile>> SavedCheckpoint::RankFile::Open(
    const SavedCheckpoint& checkpoint, int rank) {
  auto opened = std::make_unique<RankFile>();
  const std::string record_path = JoinPath(checkpoint.path_, RecordName(rank));
  WEFT_ASSIGN_OR_RETURN(const std::string text,
                        ReadWholeFile(*checkpoint.files_, record_path, kCheckpointTextMax));
  if (SealedFileOf(text) != checkpoint.manifest_.records[static_cast<size_t>(rank)]) {
    return MakeError(WEFT_CORRUPT,
                     StrCat(record_path, " is not the one that the manifest was made of"));
  }
  WEFT_ASSIGN_OR_RETURN(RankRecord record, ReadRecord(record_path, text));
  opened->file_bytes_ = record.file_bytes;
  opened->checksums_ = std::move(record.checksums);
  opened->path_ = JoinPath(checkpoint.path_, TensorFileName(rank));
  WEFT_ASSIGN_OR_RETURN(opened->file_, checkpoint.files_->Open(opened->path_));
  WEFT_ASSIGN_OR_RETURN(const size_t bytes, opened->file_->Size());
  if (bytes != opened->file_bytes_) {
    return MakeError(WEFT_CORRUPT, StrCat(opened->path_, " has ", bytes,
                                          " bytes, and was written with ", opened->file_bytes_));
  }
  std::string header(std::min(bytes, kSafetensorsLengthBytes), '\0');
  WEFT_RETURN_IF_ERROR(opened->Read({{.bytes = header.size(), .to = header.data()}}));
  WEFT_ASSIGN_OR_RETURN(const size_t header_bytes, SafetensorsHeaderBytes(header, bytes));
  header.resize(header_bytes);
  WEFT_RETURN_IF_ERROR(opened->Read({{.bytes = header.size(), .to = header.data()}}));
  absl::StatusOr<SafetensorsLayout> layout = ReadSafetensorsHeader(header, bytes);
  if (!layout.ok()) return Annotate(layout.status(), StrCat(opened->path_, ": "));
  opened->TakeEntries(*layout);
  return opened;
}

absl::StatusOr<std::unique_ptr<SavedCheckpoint::RankFile>> SavedCheckpoint::RankFile::OpenOthers(
    Files& files, const TensorFile& known) {
  auto opened = std::make_unique<RankFile>();
  opened->path_ = known.path;
  opened->file_bytes_ = known.bytes;
  WEFT_ASSIGN_OR_RETURN(opened->file_, files.Open(known.path));
  WEFT_ASSIGN_OR_RETURN(const size_t bytes, opened->file_->Size());
  if (bytes != known.bytes) {
    return MakeError(WEFT_CORRUPT, StrCat(known.path, " has ", bytes, " bytes, and had ",
                                          known.bytes, "; does another program write it?"));
  }
  opened->TakeEntries(known.layout);
  return opened;
}

absl::StatusOr<size_t> SavedCheckpoint::RankFile::BeginOf(const std::string& entry,
                                                          ElementType dtype, size_t count) const {
  const auto found = entries_.find(entry);
  if (found == entries_.end() || found->second.dtype != dtype ||
      found->second.end - found->second.begin != count * DtypeSize(dtype)) {
    return MakeError(WEFT_CORRUPT, StrCat(path_, " has no entry ", entry, " of ", count, " ",
                                          dtype.name(), ", which the manifest says it has"));
  }
  return data_begin_ + found->second.begin;
}

SavedCheckpoint::SavedCheckpoint(Files& files, std::string path, Manifest manifest)
    : files_(&files),
      path_(std::move(path)),
      manifest_(std::move(manifest)),
      value_file_bytes_(ValueFileBytes(manifest_.values)) {
  for (size_t i = 0; i < manifest_.tensors.size(); ++i)
    places_.emplace(manifest_.tensors[i].name, i);
}

absl::StatusOr<SavedCheckpoint> SavedCheckpoint::Open(Files& files, std::string path) {
  const std::string manifest_path = JoinPath(path, kManifestName);
  WEFT_ASSIGN_OR_RETURN(const std::string text,
                        ReadWholeFile(files, manifest_path, kCheckpointTextMax));
  WEFT_ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(manifest_path, text));
  return SavedCheckpoint(files, std::move(path), std::move(manifest));
}

SavedCheckpoint SavedCheckpoint::Of(Files& files, TensorFiles others) {
  Manifest manifest{.ranks = static_cast<int>(others.files.size())};
  for (size_t rank = 0; rank < others.files.size(); ++rank) {
    for (const SafetensorsEntry& entry : others.files[rank].layout.entries) {
      SavedTensor tensor{.name = entry.name,
                         .shape = entry.shape,
                         .dtype = entry.dtype,
                         .kinds = WEFT_SHARD_STATE_VALUES};
      if (entry.count() > 0)
        tensor.cuts = {{.rank = static_cast<int>(rank), .begin = 0, .end = entry.count()}};
      manifest.tensors.push_back(std::move(tensor));
    }
  }
  if (!others.metadata.empty()) {
    manifest.values.push_back(
        {.name = std::string(kSafetensorsMetadata), .bytes = MetadataText(others.metadata)});
  }
  SavedCheckpoint saved(files, std::move(others.path), std::move(manifest));
  saved.others_ = std::move(others.files);
  return saved;
}

size_t SavedCheckpoint::Find(std::string_view tensor) const {
  const auto found = places_.find(std::string(tensor));
  return found == places_.end() ? kNone : found->second;
}

size_t SavedCheckpoint::data_bytes() const {
  size_t bytes = 0;
  for (const SavedTensor& tensor : manifest_.tensors) {
    for (int number = 0; number < WEFT_SHARD_STATE_KINDS; ++number) {
      const auto kind = static_cast<weft_shard_state_kind_t>(number);
      if (tensor.Has(kind)) bytes += tensor.count() * DtypeSize(tensor.DtypeOf(kind));
    }
  }
  return bytes;
}

absl::StatusOr<SavedCheckpoint::RankFile*> SavedCheckpoint::FileOf(int rank) const {
  const auto found = open_files_.find(rank);
  if (found != open_files_.end()) return found->second.get();
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<RankFile> file,
                        others_.empty()
                            ? RankFile::Open(*this, rank)
                            : RankFile::OpenOthers(*files_, others_[static_cast<size_t>(rank)]));
  if (open_files_.size() >= kOpenFilesMax) open_files_.erase(open_files_.begin());
  RankFile* const opened = file.get();
  open_files_.emplace(rank, std::move(file));
  return opened;
}

absl::Status SavedCheckpoint::Read(const std::vector<WantedPart>& wanted) const {
  std::map<int, std::vector<Piece>> pieces;  // by rank
  for (const WantedPart& part : wanted) {
    const SavedTensor& tensor = manifest_.tensors[part.tensor];
    const size_t end = part.begin + part.count;
    // Cuts are in order, and cover the tensor.
    size_t begin = part.begin;
    for (const TensorCut& cut : tensor.cuts) {
      if (begin >= end) break;
      if (cut.end <= begin) continue;
      const size_t piece_end = std::min(cut.end, end);
      pieces[cut.rank].push_back({&part, cut, begin, piece_end});
      begin = piece_end;
    }
  }
  for (const auto& [rank, of_rank] : pieces) {
    WEFT_ASSIGN_OR_RETURN(RankFile* const file, FileOf(rank));
    std::vector<FileRange> ranges;
    for (const Piece& piece : of_rank) {
      const WantedPart& part = *piece.wanted;
      const SavedTensor& tensor = manifest_.tensors[part.tensor];
      const ElementType dtype = tensor.DtypeOf(part.kind);
      const size_t element = DtypeSize(dtype);
      const std::string entry =
          others_.empty() ? EntryName(tensor.name, part.kind, piece.cut.begin, piece.cut.end)
                          : tensor.name;
      WEFT_ASSIGN_OR_RETURN(const size_t begin,
                            file->BeginOf(entry, dtype, piece.cut.end - piece.cut.begin));
      ranges.push_back({.begin = begin + (piece.begin - piece.cut.begin) * element,
                        .bytes = (piece.end - piece.begin) * element,
                        .to = static_cast<char*>(part.to) + (piece.begin - part.begin) * element});
    }
    WEFT_RETURN_IF_ERROR(file->Read(std::move(ranges)));
  }
  return absl::OkStatus();
}

absl::Status SavedCheckpoint::CheckFile(const std::string& name, const SealedFile& file) const {
  WEFT_ASSIGN_OR_RETURN(const std::string text,
                        ReadWholeFile(*files_, JoinPath(path_, name), file.bytes + 1));
  if (SealedFileOf(text) == file) return absl::OkStatus();
  return MakeError(WEFT_CORRUPT, StrCat(JoinPath(path_, name), " is not as it was written"));
}

absl::Status SavedCheckpoint::VerifyAll(const BytesDone& done) const {
  if (manifest_.config.bytes > 0) WEFT_RETURN_IF_ERROR(CheckFile(kConfigName, manifest_.config));
  for (const SavedValue& value : manifest_.values)
    WEFT_RETURN_IF_ERROR(Value(value).status());
  for (int rank = 0; rank < manifest_.ranks; ++rank) {
    WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<RankFile> file, RankFile::Open(*this, rank));
    std::vector<char> sink(std::min(kCheckpointChunkBytes, file->file_bytes()));
    for (size_t begin = 0; begin < file->file_bytes(); begin += kCheckpointChunkBytes) {
      const size_t bytes = std::min(kCheckpointChunkBytes, file->file_bytes() - begin);
      WEFT_RETURN_IF_ERROR(file->Read({{.begin = begin, .bytes = bytes, .to = sink.data()}}));
      if (done) done(bytes);
    }
  }
  return absl::OkStatus();
}

}  // namespace weft
