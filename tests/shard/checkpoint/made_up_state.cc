#include "tests/shard/checkpoint/made_up_state.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "shard/checkpoint/committer.h"
#include "shard/checkpoint/rank_writer.h"
#include "shard/checkpoint/restore.h"

namespace weft::test {
namespace {

constexpr weft_shard_state_kind_t kMadeUpKinds[] = {WEFT_SHARD_STATE_VALUE, WEFT_SHARD_STATE_MAIN,
                                                    WEFT_SHARD_STATE_MOMENT1,
                                                    WEFT_SHARD_STATE_MOMENT2};

// One that never sleeps: ranks take turns, so what is not there will not come.
class NoPatience : public Patience {
 public:
  int64_t NowNs() override { return now_ns_ += 1'000'000'000; }

  void PauseUntil(int64_t /*time_ns*/) override {}

  bool Over() override { return false; }

 private:
  int64_t now_ns_ = 0;
};

}  // namespace

MadeUpModel::MadeUpModel(uint64_t seed, size_t elements) {
  const auto n = static_cast<int64_t>(elements);
  tensors = {
      {.name = "embed.weight",
       .shape = {n, 3},
       .dtype = WEFT_BFLOAT16,
       .kinds = WEFT_SHARD_STATE_ALL},
      {.name = "blocks.0.weight",
       .shape = {7, n},
       .kinds = WEFT_SHARD_STATE_VALUES | WEFT_SHARD_STATE_MOMENTS},
      {.name = "blocks.0.scale",
       .shape = {},
       .kinds = WEFT_SHARD_STATE_VALUES | WEFT_SHARD_STATE_MOMENTS},
      {.name = "blocks.0.mask", .shape = {5}, .dtype = WEFT_BOOL, .kinds = WEFT_SHARD_STATE_VALUES},
      {.name = "none", .shape = {0, 4}, .kinds = WEFT_SHARD_STATE_VALUES},
      {.name = "head \"quoted\" \n é",
       .shape = {n + 1},
       .dtype = WEFT_FLOAT64,
       .kinds = WEFT_SHARD_STATE_VALUES}};
  std::mt19937_64 random(seed);
  for (const SavedTensor& tensor : tensors) {
    contents.emplace_back(WEFT_SHARD_STATE_KINDS);
    for (const weft_shard_state_kind_t kind : kMadeUpKinds) {
      if (!tensor.Has(kind)) continue;
      std::string& bytes = contents.back()[kind];
      bytes.resize(tensor.count() * DtypeSize(tensor.DtypeOf(kind)));
      for (char& byte : bytes)
        byte = static_cast<char>(random());
    }
  }
  scalars = {.struct_size = sizeof(scalars),
             .steps_begun = 12,
             .train_steps_begun = 11,
             .update_count = 10,
             .loss_scale = 65536.0 / 3,
             .loss_scale_good_steps = 9,
             .loss_scale_overflows_left = 2,
             .nonfinite_steps = 1};
}

MadeUpState::MadeUpState(const MadeUpModel& model, int cut, int cuts, size_t overlap)
    : scalars(model.scalars), model_(model), cut_(cut), cuts_(cuts), overlap_(overlap) {
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    kept_.emplace_back(WEFT_SHARD_STATE_KINDS);
    const StatePart part = Interval(i);
    for (const weft_shard_state_kind_t kind : kMadeUpKinds) {
      const SavedTensor& tensor = model.tensors[i];
      const size_t size = DtypeSize(tensor.DtypeOf(kind));
      if (tensor.Has(kind))
        kept_.back()[kind] = model.contents[i][kind].substr(part.begin * size, part.count * size);
    }
  }
}

StatePart MadeUpState::Interval(size_t tensor) const {
  const size_t count = model_.tensors[tensor].count();
  const auto cut = static_cast<size_t>(cut_);
  const auto cuts = static_cast<size_t>(cuts_);
  StatePart part;
  part.write_begin = count * cut / cuts;
  part.write_count = count * (cut + 1) / cuts - part.write_begin;
  part.begin = part.write_begin - std::min(part.write_begin, overlap_);
  part.count = std::min(count, part.write_begin + part.write_count + overlap_) - part.begin;
  return part;
}

absl::StatusOr<StatePart> MadeUpState::Part(size_t tensor, weft_shard_state_kind_t kind) {
  StatePart part = Interval(tensor);
  part.data = kept_[tensor][kind].data();
  return part;
}

void MadeUpState::Clear() {
  for (std::vector<std::string>& kinds : kept_) {
    for (std::string& bytes : kinds)
      std::fill(bytes.begin(), bytes.end(), '\x5a');
  }
  scalars = {};
}

std::string MadeUpState::Difference(uint32_t kinds) const {
  for (size_t i = 0; i < model_.tensors.size(); ++i) {
    const SavedTensor& tensor = model_.tensors[i];
    const StatePart part = Interval(i);
    for (const weft_shard_state_kind_t kind : kMadeUpKinds) {
      const size_t size = DtypeSize(tensor.DtypeOf(kind));
      if (!tensor.Has(kind) || (kinds >> kind & 1) == 0) continue;
      if (kept_[i][kind] != model_.contents[i][kind].substr(part.begin * size, part.count * size))
        return StrCat(StateKindName(kind), " of ", tensor.name, " on ", cut_, " of ", cuts_);
    }
  }
  if (kinds == WEFT_SHARD_STATE_ALL && std::memcmp(&scalars, &model_.scalars, sizeof(scalars)) != 0)
    return StrCat("scalars on ", cut_, " of ", cuts_);
  return "";
}

MadeUpRanks::MadeUpRanks(const MadeUpModel& model, int ranks, size_t overlap) {
  for (int rank = 0; rank < ranks; ++rank)
    states.push_back(std::make_unique<MadeUpState>(model, rank, ranks, overlap));
}

absl::Status MadeUpRanks::Save(Files& files, const std::string& root, const MadeUpSave& save) {
  absl::Status first = files.MakeDirectory(root);
  NoPatience patience;
  const SaveSettings settings{.timeout_ns = 1, .config = save.config, .retention = save.retention};
  CheckpointPlace place{.root = root,
                        .name = {.run = save.run, .step = save.step},
                        .job = save.job,
                        .ranks = static_cast<int>(states.size())};
  for (int rank = place.ranks - 1; rank >= 0; --rank) {
    place.rank = rank;
    absl::StatusOr<Snapshot> snapshot =
        TakeSnapshot({{"", states[static_cast<size_t>(rank)].get()}},
                     rank == 0 ? save.values : std::vector<SavedValue>());
    absl::Status saved = snapshot.status();
    if (saved.ok() && rank == 0) {
      saved = RunSave(files, patience, place, *snapshot, settings);
    } else if (saved.ok()) {
      // What RunSave does but for its waits, which rank 0 would have to end.
      saved = BeginCheckpoint(files, place);
      if (saved.ok()) saved = WriteRank(files, place, *snapshot);
      if (!saved.ok()) ReportFailure(files, place, saved);
    }
    first.Update(saved);
  }
  return first;
}

absl::Status MadeUpRanks::Restore(Files& files, const std::string& path, uint32_t kinds) {
  WEFT_ASSIGN_OR_RETURN(const SavedCheckpoint saved, SavedCheckpoint::Open(files, path));
  for (const std::unique_ptr<MadeUpState>& state : states) {
    WEFT_RETURN_IF_ERROR(CheckFits(saved, {{"", state.get()}}, kinds));
    WEFT_RETURN_IF_ERROR(weft::Restore(saved, {{"", state.get()}}, kinds));
  }
  return absl::OkStatus();
}

void MadeUpRanks::Clear() {
  for (const std::unique_ptr<MadeUpState>& state : states)
    state->Clear();
}

std::string MadeUpRanks::Difference(uint32_t kinds) const {
  for (const std::unique_ptr<MadeUpState>& state : states) {
    std::string difference = state->Difference(kinds);
    if (!difference.empty()) return difference;
  }
  return "";
}

}  // namespace weft::test
