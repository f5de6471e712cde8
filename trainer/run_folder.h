// The folder of a run: whose it is, and what stands in it from its first moment. Rank 0 has one.
//
//   RunFolder folder(config, text, start);
//   folder.Claim();                      // BadInput if another run is there
//   folder.directory()                   // "runs/a"
//   folder.Release();                    // no step was made: nothing is left
//
// A folder is claimed by config.json, which is made at once or not at all, so of two runs that begin with one name one is refused. It has
// the resolved configuration, and what that was in earlier starts of the run where it was another one.
//
// A used folder is taken by the same job, which is started again or goes on without a rank, and by --resume. --overwrite moves it to
// NAME.old-N. Nothing is deleted. Thread-safety: belongs to one thread.
#ifndef WEFT_TRAINER_RUN_FOLDER_H_
#define WEFT_TRAINER_RUN_FOLDER_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config.h"

namespace weft::trainer {

class RunFolder {
 public:
  // `configuration`: JSON of an object. `start`: of this process, or later, but before any rank can have claimed the folder.
  RunFolder(const ProgramConfig& config, const std::string& configuration,
            std::chrono::system_clock::time_point start);

  // Throws BadInput for a name that another run has, and NotWritten if there is no room.
  void Claim();
  // When no step was made: all is as it was before Claim.
  void Release();

  const std::string& directory() const { return directory_; }

  // What a user is to know: what was moved, and that nothing is gone on with.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void ClaimWithoutName();
  void ClaimUsed();
  // BadInput if another run is quicker.
  void ClaimFree();
  // Whether --resume goes on with what is in the folder.
  bool GoesOn() const;
  bool IsOfThisJob() const;
  // The old run gets another name.
  void MoveAside();
  void ReplaceConfiguration();

  const ProgramConfig& config_;
  const std::string configuration_;
  const std::chrono::system_clock::time_point start_;
  std::string directory_;
  bool fresh_ = false;    // nobody had it before
  std::string before_;    // of config.json
  std::string moved_to_;  // where the run is that had the name
  std::vector<std::string> notes_;
};

// Whether a checkpoint was committed below that directory of checkpoints, or may have been, as that cannot be read.
bool HasCheckpoint(const std::string& checkpoints);

// Of a run's directory; or it is one of checkpoints itself, or a checkpoint, or a file.
std::string CheckpointsIn(const std::string& directory);

// However they are written, and whichever links lead there.
bool IsSamePath(const std::string& a, const std::string& b);

// What --resume says, if it is the step of a checkpoint of this run.
std::optional<int64_t> StepIn(const std::string& resume);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_RUN_FOLDER_H_
