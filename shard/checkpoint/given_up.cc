#include "shard/checkpoint/given_up.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "shard/checkpoint/rank_writer.h"

namespace weft {
namespace {

void RemoveQuietly(Files& files, const CheckpointPlace& place, const std::string& name) {
  const absl::Status removed = files.Remove(place.PathOf(name));
  if (!removed.ok() && !absl::IsNotFound(removed))
    LogDebug("checkpoint: ", FromAbsl(removed.message()));
}

// Of any rank: first what makes it count.
void RemoveData(Files& files, const CheckpointPlace& place, int rank) {
  RemoveQuietly(files, place, RecordName(rank));
  RemoveQuietly(files, place, TensorFileName(rank));
  RemoveQuietly(files, place, ValueFileName(rank));
}

// Rank 0 has begun a later checkpoint of this job, or could not.
bool HasGoneOn(Files& files, const CheckpointPlace& place) {
  const auto names = files.List(place.root);
  if (!names.ok()) return false;
  return std::any_of(names->begin(), names->end(), [&](const std::string& text) {
    const std::optional<CheckpointName> name = ParseDirectoryName(text);
    if (!name || name->run != place.name.run || !(place.name < *name)) return false;
    CheckpointPlace later = place;
    later.name = *name;
    return HasBegun(files, later).value_or(false) || files.Open(later.PathOf(FailureName(0))).ok();
  });
}

bool IsMissing(Files& files, const std::string& path) {
  return absl::IsNotFound(files.Open(path).status());
}

}  // namespace

bool HasGivenUp(Files& files, const CheckpointPlace& place) {
  const bool given_up = files.Open(place.PathOf(FailureName(0))).ok() || HasGoneOn(files, place);
  // Asked afterwards: rank 0 may have failed when the manifest was there.
  return given_up && IsMissing(files, place.PathOf(kManifestName));
}

// The sign goes once there is a manifest, so that is asked for last.
bool HasNotBegun(Files& files, const CheckpointPlace& place) {
  return IsMissing(files, place.PathOf(JobFileName(place.job))) &&
         IsMissing(files, place.PathOf(kManifestName));
}

void RemoveOwnData(Files& files, const CheckpointPlace& place) {
  RemoveData(files, place, place.rank);
  // If rank 0 has removed it before, this rank has made it anew.
  (void)files.RemoveDirectory(place.path());
}

void RemoveFinishedData(Files& files, const CheckpointPlace& place) {
  const auto names = files.List(place.path());
  if (!names.ok()) return;
  const auto is_there = [&](const std::string& name) {
    return std::binary_search(names->begin(), names->end(), name);
  };
  for (const std::string& name : *names) {
    const std::optional<int> rank = RankOfDataName(name);
    if (rank && (is_there(RecordName(*rank)) || is_there(FailureName(*rank))))
      RemoveData(files, place, *rank);
  }
  RemoveQuietly(files, place, kConfigName);
}

}  // namespace weft
