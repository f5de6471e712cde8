// What moves operations that nobody waits for, and looks after groups in which nobody waits: the one hidden thread of a process,
// or the program.
//
//   AskForProgress(shared_from_this(), Asking::kSoon);   // a group has queued operations
//   const int pending = ProgressAll();           // weft_progress()
//   WatchGroup(watched);                         // a group has ranks that may end
//
// The thread starts with the first group of several ranks, and ends when the last group has been closed. It sleeps on a set of
// descriptors (base/poll_set.h), in which are the lifelines of all peers' processes, and moves the agent
// (comm/agent/agent.h); while groups have queued operations it moves these too. With WEFT_PROGRESS=caller there is no thread:
// then whoever waits, and weft_progress(), does both, and the descriptor of weft_progress_fd holds the same set.
// Callers who wait for what they have started need no help, and to wake a thread costs them more than the
// operation. So the thread looks at a group's queue now and then, seldom where callers do all themselves,
// and steps it from the second look on at which nothing has ended since the first and nobody waits. A group
// that has been idle from one look to the next has to ask again.
// Groups are served in the order of the highest priority among their queued operations.
// A forked child starts with nothing: the parent's groups and thread are the parent's.
// Thread-safety: all functions, any thread; with no lock of a group held.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft {

class Stepped;
class Watched;

// A group exists: keeps the thread's place until RemoveProgressUser.
void AddProgressUser();
// The agent looks after `group`, whose user has been added, until UnwatchGroup. A thread that cannot be had is a line in the log.
void WatchGroup(std::shared_ptr<Watched> group);
void UnwatchGroup(const Watched* group);
// For a thread that waits: moves the agent, where no thread of weft's does. To be called now and then, also with locks held that
// a Look() does without.
void LookAfterGroups();
// All groups are looked at before long: something has happened that no descriptor says.
void LookSoon();
// They are looked at by this thread, unless another one does: for who must not wait for the thread, as the caller may be it, in a
// callback.
void LookNow();
// The thread is there, if there is to be one, and stays as long as the group of the caller exists. Asked before an
// operation may be seen by anybody, because nothing may fail afterwards. SYSTEM_ERROR if there is no thread to be had.
absl::Status PrepareProgress();
// `group` is closed and has nothing queued any more. Ends the thread when it was the last group's.
void RemoveProgressUser(const Stepped* group);
// kSoon: within a millisecond or so, unless they end before.
enum class Asking : uint8_t { kSoon, kNow };
// `group` has queued operations, after PrepareProgress(). Called when Progress does not have it, or with kNow.
void AskForProgress(std::shared_ptr<Stepped> group, Asking asking);

// True if no thread moves operations.
bool CallerDrivesProgress();
// Steps every group that has queued operations once, without waiting; returns how many operations have
// not ended.
int ProgressAll();
// The same, for a thread that waits and moves all groups meanwhile: the descriptor goes on saying what it said.
void StepAllGroups();
// The descriptor of weft_progress_fd.
absl::StatusOr<int> ProgressFd();
// A queued operation has ended, and its callback has run.
void NoteWorkEnded();

}  // namespace weft
