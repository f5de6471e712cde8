// A state that a test makes up: some tensors of the four kinds, cut over any number of ranks as a test wants, and saved and loaded by ranks
// that take turns in one thread.
//
//   const MadeUpModel model(seed);
//   MadeUpRanks ranks(model, 3);                               // each keeps a third of everything
//   EXPECT_TRUE(ranks.Save(files, "/c", {.step = 7}).ok());
//   MadeUpRanks others(model, 2);
//   others.Clear();
//   EXPECT_TRUE(others.Restore(files, "/c/step-00000007").ok());
//   EXPECT_EQ(others.Difference(), "");
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/files.h"
#include "shard/checkpoint/save_run.h"
#include "shard/checkpoint/state_source.h"

namespace weft::test {

// What every rank knows of the tensors, and their whole contents.
struct MadeUpModel {
  // Matrices, a scalar, an empty tensor, 16 bits with main copies, 8 bits, one without optimizer state.
  explicit MadeUpModel(uint64_t seed, size_t elements = 1000);

  std::vector<SavedTensor> tensors;
  // By tensor and kind; empty: there is none.
  std::vector<std::vector<std::string>> contents;
  weft_shard_state_scalars_t scalars;
};

// A source whose tensors are each kept in one interval. `cut` of `cuts`; `overlap` elements more on both sides are kept, but not written.
class MadeUpState : public StateSource {
 public:
  MadeUpState(const MadeUpModel& model, int cut, int cuts, size_t overlap);

  const std::vector<SavedTensor>& tensors() const override { return model_.tensors; }

  absl::StatusOr<StatePart> Part(size_t tensor, weft_shard_state_kind_t kind) override;

  bool HasScalars() const override { return true; }

  absl::StatusOr<weft_shard_state_scalars_t> Scalars() override { return scalars; }

  absl::Status SetScalars(const weft_shard_state_scalars_t& to) override {
    scalars = to;
    return absl::OkStatus();
  }

  absl::Status Written(uint32_t /*kinds*/) override { return absl::OkStatus(); }

  void Clear();
  // Empty if all is as the model has it, of these kinds.
  std::string Difference(uint32_t kinds) const;

  weft_shard_state_scalars_t scalars;

 private:
  StatePart Interval(size_t tensor) const;

  const MadeUpModel& model_;
  const int cut_;
  const int cuts_;
  const size_t overlap_;
  std::vector<std::vector<std::string>> kept_;  // as contents
};

// A value that is too large for the texts, and tells of which rank it is.
inline constexpr const char* kMadeUpValue = "large";

inline std::string MadeUpValue(int rank) {
  return std::string(1500, static_cast<char>('a' + rank));
}

struct MadeUpSave {
  int64_t step = 1;
  int64_t run = 0;
  CheckpointJob job = 1;
  Retention retention = {};
  std::string config = {};
  std::vector<SavedValue> values = {};  // each of the rank that is its writer
  // With the lock of the directory, as of a process that ends when the save has: one that is left is nobody's.
  bool locked = false;
};

class MadeUpRanks {
 public:
  MadeUpRanks(const MadeUpModel& model, int ranks, size_t overlap = 0);

  // Each rank's part in turn, rank 0's last, which commits. The first error; later ranks write nevertheless.
  absl::Status Save(Files& files, const std::string& root, const MadeUpSave& save);

  // All ranks, from one checkpoint, of these kinds; its values are looked at.
  absl::Status Restore(Files& files, const std::string& path,
                       uint32_t kinds = WEFT_SHARD_STATE_ALL);

  void Clear();
  std::string Difference(uint32_t kinds = WEFT_SHARD_STATE_ALL) const;

  std::vector<std::unique_ptr<MadeUpState>> states;
};

// A checkpoint that was committed, and another one after it, whose save may have been cut off.
struct OldAndNew {
  static constexpr int64_t kOldStep = 10;
  static constexpr int64_t kNewStep = 20;

  // What is wrong in `root`, or nothing: every committed checkpoint loads with the contents of its step; the latest is the new one if
  // `committed`, else one of the two.
  std::string Problem(Files& files, const std::string& root, bool committed) const;

  const MadeUpModel old{1, 3};
  const MadeUpModel fresh{2, 3};
};

}  // namespace weft::test
