#include "shard/checkpoint/rank_writer.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "shard/checkpoint/manifest.h"
#include "shard/checkpoint/value_file.h"

namespace weft {
namespace {

constexpr size_t kFailureTextMax = 16 << 10;
// The first line of what a rank leaves that could write, but has no group any more: then rank, pid, signal and exit code of the culprit.
constexpr std::string_view kAbortedPrefix = "aborted ";

// What other ranks are told of `failure`.
std::string FailureText(const absl::Status& failure) {
  if (ResultOf(failure) != WEFT_ABORTED) return std::string(FromAbsl(failure.message()));
  const ErrorFields fields = FieldsOf(failure);
  return StrCat(kAbortedPrefix, fields.rank, " ", fields.pid, " ", fields.signal, " ",
                fields.exit_code, "\n", FromAbsl(failure.message()));
}

// The error of a save that `rank` has given up, if FailureText() says that, not that `rank` could not write.
std::optional<absl::Status> AbortedBy(int rank, std::string_view text) {
  if (text.substr(0, kAbortedPrefix.size()) != kAbortedPrefix) return std::nullopt;
  const std::vector<std::string> lines =
      absl::StrSplit(ToAbsl(text.substr(kAbortedPrefix.size())), absl::MaxSplits('\n', 1));
  const std::vector<std::string> numbers = absl::StrSplit(lines[0], ' ');
  ErrorFields fields;
  if (lines.size() != 2 || numbers.size() != 4 || !absl::SimpleAtoi(numbers[0], &fields.rank) ||
      !absl::SimpleAtoi(numbers[1], &fields.pid) || !absl::SimpleAtoi(numbers[2], &fields.signal) ||
      !absl::SimpleAtoi(numbers[3], &fields.exit_code)) {
    return std::nullopt;
  }
  return MakeError(WEFT_ABORTED, fields, StrCat("rank ", rank, " gave up: ", lines[1]));
}

absl::Status MakeDirectories(Files& files, const CheckpointPlace& place) {
  WEFT_RETURN_IF_ERROR(files.MakeDirectory(place.root));
  return files.MakeDirectory(place.path());
}

// Of an entry that is in no memory.
absl::Status AppendHeld(const SafetensorsEntry& entry, const EntryBytes& bytes,
                        ChunkWriter* writer) {
  const size_t element = DtypeSize(entry.dtype);
  std::vector<char> part(std::min(kCheckpointChunkBytes, entry.end - entry.begin));
  size_t next = bytes.begin;
  for (size_t left = entry.end - entry.begin; left > 0;) {
    const size_t taken = std::min(left, part.size());
    WEFT_RETURN_IF_ERROR(
        bytes.source->ReadHeld(bytes.tensor, bytes.kind, next, taken / element, part.data()));
    WEFT_RETURN_IF_ERROR(writer->Append(part.data(), taken));
    next += taken / element;
    left -= taken;
  }
  return absl::OkStatus();
}

// All but the checksums of the file of tensors, which begins with `header`.
absl::StatusOr<RankRecord> DescribeRank(const CheckpointPlace& place, const Snapshot& snapshot,
                                        const std::string& header) {
  RankRecord record{.job = place.job,
                    .step = place.name.step,
                    .rank = place.rank,
                    .ranks = place.ranks,
                    .file_bytes = header.size() + snapshot.data_bytes(),
                    .tensors = snapshot.tensors,
                    .scalars = snapshot.scalars,
                    .optimizers = snapshot.optimizers};
  WEFT_ASSIGN_OR_RETURN(record.values, PlaceValues(snapshot.values));
  for (SavedTensor& tensor : record.tensors) {
    for (TensorCut& cut : tensor.cuts)
      cut.rank = place.rank;
  }
  record.checksums.resize((record.file_bytes + kCheckpointChunkBytes - 1) / kCheckpointChunkBytes);
  return record;
}

// The reader has the last word on what it can read: what it refuses must not be written. All checksums have as many digits.
absl::Status CheckReadable(const RankRecord& record) {
  // Known without a text of hundreds of megabytes.
  if (record.tensors.size() > kCheckpointTensorsMax) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("rank ", record.rank, " has ", record.tensors.size(),
                            " tensors; a checkpoint has up to ", kCheckpointTensorsMax,
                            ", and nothing was written: save several as one"));
  }
  absl::Status read = ReadRecord("its record", RecordText(record)).status();
  if (read.ok()) return read;
  return MakeError(WEFT_INVALID_ARGUMENT,
                   StrCat("rank ", record.rank,
                          " has more than a checkpoint can have, and nothing was written: ",
                          FromAbsl(read.message())));
}

// The file of tensors; its checksums go to *record.
absl::Status WriteTensors(Files& files, const CheckpointPlace& place, const Snapshot& snapshot,
                          const std::string& header,
                          const std::function<absl::Status(ChunkWriter&)>& append,
                          RankRecord* record) {
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                        files.Create(place.PathOf(TensorFileName(place.rank)),
                                     header.size() + snapshot.data_bytes()));
  ChunkWriter writer(*file);
  WEFT_RETURN_IF_ERROR(writer.Append(header.data(), header.size()));
  WEFT_RETURN_IF_ERROR(append(writer));
  WEFT_RETURN_IF_ERROR(writer.Finish());
  WEFT_RETURN_IF_ERROR(file->Sync());
  WEFT_RETURN_IF_ERROR(file->Close());
  record->file_bytes = writer.bytes();
  record->checksums = writer.checksums();
  return absl::OkStatus();
}

// Both files, and their names.
absl::Status WriteData(Files& files, const CheckpointPlace& place, const Snapshot& snapshot,
                       const std::string& header,
                       const std::function<absl::Status(ChunkWriter&)>& append,
                       RankRecord* record) {
  WEFT_RETURN_IF_ERROR(WriteTensors(files, place, snapshot, header, append, record));
  WEFT_RETURN_IF_ERROR(
      WriteValueFile(files, place.PathOf(ValueFileName(place.rank)), snapshot.values));
  // Before the record that speaks of them.
  return files.SyncDirectory(place.path());
}

// Of this rank, as well as can be.
void RemoveUnrecorded(Files& files, const CheckpointPlace& place) {
  for (const std::string& name : {TensorFileName(place.rank), ValueFileName(place.rank)}) {
    const absl::Status removed = files.Remove(place.PathOf(name));
    if (!removed.ok() && !absl::IsNotFound(removed))
      LogDebug("checkpoint: ", FromAbsl(removed.message()));
  }
}

}  // namespace

absl::Status BeginCheckpoint(Files& files, const CheckpointPlace& place) {
  WEFT_RETURN_IF_ERROR(MakeDirectories(files, place));
  if (place.rank != 0) return absl::OkStatus();
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> sign,
                        files.Create(place.PathOf(JobFileName(place.job)), 0));
  return sign->Close();
}

absl::StatusOr<bool> HasBegun(Files& files, const CheckpointPlace& place) {
  const auto sign = files.Open(place.PathOf(JobFileName(place.job)));
  if (sign.ok()) return true;
  if (absl::IsNotFound(sign.status())) return false;
  return sign.status();
}

absl::Status WriteRank(Files& files, const CheckpointPlace& place, const Snapshot& snapshot) {
  return WriteRank(files, place, snapshot, [&](ChunkWriter& writer) {
    for (size_t i = 0; i < snapshot.entries.size();) {
      if (snapshot.bytes[i].data == nullptr) {
        WEFT_RETURN_IF_ERROR(AppendHeld(snapshot.entries[i], snapshot.bytes[i], &writer));
        ++i;
        continue;
      }
      // Entries that lie behind each other in memory, too, as those of a copy do, are one piece.
      const auto* const data = static_cast<const char*>(snapshot.bytes[i].data);
      const size_t begin = snapshot.entries[i].begin;
      size_t count = 0;
      for (; i < snapshot.entries.size() && snapshot.bytes[i].data == data + count; ++i)
        count = snapshot.entries[i].end - begin;
      WEFT_RETURN_IF_ERROR(writer.Append(data, count));
    }
    return absl::OkStatus();
  });
}

absl::Status WriteRank(Files& files, const CheckpointPlace& place, const Snapshot& snapshot,
                       const std::function<absl::Status(ChunkWriter&)>& append) {
  WEFT_ASSIGN_OR_RETURN(const std::string header, SafetensorsHeader(snapshot.entries));
  WEFT_ASSIGN_OR_RETURN(RankRecord record, DescribeRank(place, snapshot, header));
  WEFT_RETURN_IF_ERROR(CheckReadable(record));
  absl::Status written = WriteData(files, place, snapshot, header, append, &record);
  if (!written.ok()) {
    RemoveUnrecorded(files, place);
    return written;
  }
  const std::string path = place.PathOf(RecordName(place.rank));
  const absl::Status recorded = WriteFileAtomically(files, path, RecordText(record));
  // One that is there counts, whatever the last call said: rank 0 may have committed it.
  if (!recorded.ok() && absl::IsNotFound(files.Open(path).status())) RemoveUnrecorded(files, place);
  return recorded;
}

void ReportFailure(Files& files, const CheckpointPlace& place, const absl::Status& failure) {
  absl::Status reported = MakeDirectories(files, place);
  if (reported.ok()) {
    reported =
        WriteFileAtomically(files, place.PathOf(FailureName(place.rank)), FailureText(failure));
  }
  if (!reported.ok()) {
    LogDebug("checkpoint: that rank ", place.rank,
             " has failed could not be written either: ", FromAbsl(reported.message()));
  }
}

absl::Status FailureOf(Files& files, const CheckpointPlace& place, int rank) {
  const auto text = ReadWholeFile(files, place.PathOf(FailureName(rank)), kFailureTextMax);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  if (text.ok()) {
    if (std::optional<absl::Status> aborted = AbortedBy(rank, *text)) return *std::move(aborted);
  }
  return MakeError(WEFT_SYSTEM_ERROR, {.rank = rank},
                   StrCat("rank ", rank, " could not save: ",
                          text.ok() ? std::string_view(*text) : FromAbsl(text.status().message())));
}

}  // namespace weft
