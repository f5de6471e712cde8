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

// The file of tensors; its size and checksums go to *record.
absl::Status WriteTensors(Files& files, const CheckpointPlace& place, const Snapshot& snapshot,
                          const std::function<absl::Status(ChunkWriter&)>& append,
                          RankRecord* record) {
  WEFT_ASSIGN_OR_RETURN(const std::string header, SafetensorsHeader(snapshot.entries));
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
  return files.SyncDirectory(place.path());
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
  RankRecord record{.job = place.job,
                    .step = place.name.step,
                    .rank = place.rank,
                    .ranks = place.ranks,
                    .tensors = snapshot.tensors,
                    .scalars = snapshot.scalars,
                    .values = snapshot.values};
  for (SavedTensor& tensor : record.tensors) {
    for (TensorCut& cut : tensor.cuts)
      cut.rank = place.rank;
  }
  const absl::Status written = WriteTensors(files, place, snapshot, append, &record);
  if (!written.ok()) {
    const absl::Status removed = files.Remove(place.PathOf(TensorFileName(place.rank)));
    if (!removed.ok() && !absl::IsNotFound(removed))
      LogDebug("checkpoint: ", FromAbsl(removed.message()));
    return written;
  }
  return WriteFileAtomically(files, place.PathOf(RecordName(place.rank)), RecordText(record));
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
