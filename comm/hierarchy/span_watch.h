// The islands of a job, as the agent of one of its processes looks after them: moves this process's side of its island
// (comm/agent/island_side.h), tells the other islands how groups end here, and ends here those that have ended there.
//
//   auto watch = std::make_shared<SpanWatch>(SystemSeams(), settings, map, block, island, process);
//   WEFT_RETURN_IF_ERROR(watch->Begin());
//   WatchGroup(watch);                                  // from here on the progress thread moves it
//   watch->Add(end, SpanWatch::Kind::kFirst);           // a group
//   if (absl::Status cause = watch->Cause(*end); !cause.ok()) ...
//   watch->LetGo(end.get());                            // this process has closed it
//   UnwatchGroup(watch.get());
//   watch->Leave();
//
// One process speaks for the island, and only that one does anything but look whether it is its turn. What all islands have settled
// on stands in the island's memory, where all of its processes read it. Of a group that the speaker need not be in, or may have closed, the others post how it has
// ended (island_mail.h); that a rank has died, or cannot be reached, is not told for each of these: a group of all ranks says it.
//
// Who is asked for the cause of a failure right after it has happened must wait for it: it is known when all islands have had
// their say, some 50 ms after the first has spoken, or a limit later if some cannot be reached.
//
// An island of which no process answers though their machine does is stopped, and is waited for (IsStalled).
//
// Thread-safety: any thread; as Watched. The block is borrowed until Leave() has returned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "base/fd.h"
#include "base/mutex.h"
#include "comm/agent/island_mail.h"
#include "comm/agent/island_map.h"
#include "comm/agent/island_ready.h"
#include "comm/agent/island_shared_memory.h"
#include "comm/agent/island_side.h"
#include "comm/agent/island_stalls.h"
#include "comm/agent/shared_text.h"
#include "comm/agent/watched.h"
#include "comm/group/fork.h"
#include "comm/hierarchy/last_words.h"
#include "comm/hierarchy/link_note.h"
#include "comm/hierarchy/span_end.h"

namespace weft {

class SpanWatch : public Watched, public AfarRanks {
 public:
  static size_t BytesFor(const IslandMap& map, int island);

  // `block`: BytesFor() zeroed bytes that the processes of the island share. `process`: this one's place in
  // the island's list. `address`: keeps that at which it listens while it speaks.
  SpanWatch(const Seams& seams, const IslandAgentSettings& settings,
            std::shared_ptr<const IslandMap> map, std::byte* block, int island, int process,
            UniqueFd address);

  absl::Status Begin();

  // False in a forked child of the process that made it, to which it does nothing.
  bool here() const { return origin_.here(); }

  // Of all ranks of the job, and there while any of them is; of all of them; of some. Deaths are told of the first two.
  enum class Kind : uint8_t { kHome, kFirst, kPart };

  void Add(std::shared_ptr<SpanEnd> group, Kind kind);
  // It ends no more: nothing that is found in it counts from here on.
  void Remove(const SpanEnd* group);
  // This process has closed it. If it has ended, that is told all the same, by later looks and before this process leaves: true if there
  // is anything to be told.
  bool LetGo(const SpanEnd* group);

  // What all islands say of why the group has ended; Ok until that is settled, and in a forked child. Never waits.
  absl::Status Cause(const SpanEnd& group);
  // The same of a group that has ended on this island; waits until it is settled. What was found here if that takes too long, as
  // when no process of the island moves its agent.
  absl::Status AwaitCause(const SpanEnd& group);

  // What the islands have agreed on, of world ranks.
  struct NextMembership {
    IslandMembers members;
    weft_result_t result = WEFT_SUCCESS;  // else NO_QUORUM or TIMEOUT, and there are no members
    int late = -1;                        // a rank that has not come in time, if that is known
    absl::Status interrupted;             // the program waits no longer
  };

  // The membership that follows `epoch`: this rank, and all others that live and can be reached, go on without those that do not. Waits until all
  // have come, and their islands have agreed.
  NextMembership AwaitMembership(uint32_t epoch, int64_t deadline_ns);

  // AfarRanks.
  bool IsStalled(int world_rank) const override;
  std::vector<LinkNote> Links() const override;

  // What this process's links do, for all processes of the island (link_watch.h).
  void ShowLinks(const std::vector<LinkNote>& notes);

  // Until an island that does not answer is unreachable.
  int64_t limit_ns() const { return limit_ns_; }

  // Until the cause of a failure that was found here must be settled.
  int64_t patience_ns() const { return kLimitsOfPatience * limit_ns_; }

  // This process takes no part in the job any more; the others do not wait for it. How groups have ended that it has let go is settled
  // before that, which takes some 50 ms, a limit at most. Returns when another process of the island speaks, or the other islands know: after milliseconds if all of the island leave, else when
  // the next one has seen it, a fifteenth of the limit; at most when the side gives up (IslandSide::may_give_up). Nothing is looked at from here on.
  void Leave();

  // Watched. It has no ranks that are waited for: the inner groups do.
  void AppendPollItems(std::vector<PollItem>* items) const override;
  int64_t Look(int64_t now_ns) override;

 private:
  // A failure that is found, islands that are found unreachable meanwhile, those that do not close.
  static constexpr int kLimitsOfPatience = 3;

  struct Group {
    std::shared_ptr<SpanEnd> end;
    Kind kind = Kind::kFirst;
    // By this speaker: what has not been taken yet, and what has been found last.
    std::vector<FailureRecord> unsaid;
    std::optional<FailureRecord> found;
    bool over = false;  // nothing that is found counts any more
  };

  SharedText NotesOf(int process) const;
  std::shared_ptr<SpanEnd> Take(const SpanEnd* group) WEFT_REQUIRES(mutex_);
  std::optional<FailureRecord> Settled(uint64_t group_id);
  void LookUntil(int64_t patience_ns, const std::function<bool()>& done);
  void SayNotReady(uint32_t epoch, int64_t waited_s) const;
  void Tell() WEFT_REQUIRES(mutex_);
  void Post() WEFT_REQUIRES(mutex_);
  void Post(const FailureRecord& record) WEFT_REQUIRES(mutex_);
  bool TellOfMail() WEFT_REQUIRES(mutex_);
  bool TellOfReady() WEFT_REQUIRES(mutex_);
  void Answer(const IslandReady::Answer& answer) WEFT_REQUIRES(mutex_);
  // True if the agent was told anything.
  bool TellOf(Group* group) WEFT_REQUIRES(mutex_);
  void Hear() WEFT_REQUIRES(mutex_);
  void NoteEnded(int world_rank, const std::optional<ExitInfo>& exit) WEFT_REQUIRES(mutex_);
  void NoteUnreachable(int island) WEFT_REQUIRES(mutex_);
  void NoteSettled(const FailureRecord& record) WEFT_REQUIRES(mutex_);

  const Origin origin_;
  const std::shared_ptr<const IslandMap> map_;
  const UniqueFd address_;
  const int island_;
  const int process_;
  const int64_t limit_ns_;
  IslandSharedMemory memory_;  // the side's
  IslandMail mail_;
  IslandReady ready_;
  IslandStalls stalls_;
  std::byte* const notes_;  // of links, a text of each process

  mutable Mutex mutex_;
  IslandSide side_ WEFT_GUARDED_BY(mutex_);
  std::vector<Group> groups_ WEFT_GUARDED_BY(mutex_);
  LastWords last_words_ WEFT_GUARDED_BY(mutex_);
  std::map<int, std::optional<ExitInfo>> ended_
      WEFT_GUARDED_BY(mutex_);  // ranks that have died, or left: without an exit
  uint64_t told_beginning_ WEFT_GUARDED_BY(mutex_) = 0;
  std::vector<uint64_t> mail_read_ WEFT_GUARDED_BY(mutex_);  // versions, by process
  std::optional<FailureRecord> posted_ WEFT_GUARDED_BY(mutex_);
  uint64_t told_ready_ WEFT_GUARDED_BY(mutex_) = 0;  // a hash of who waits for a new membership
  bool left_ WEFT_GUARDED_BY(mutex_) = false;

  mutable Mutex read_mutex_;
  IslandSharedMemory read_memory_ WEFT_GUARDED_BY(read_mutex_);      // the callers'
  std::vector<FailureRecord> settled_ WEFT_GUARDED_BY(read_mutex_);  // once said, it stays so
  uint64_t read_version_ WEFT_GUARDED_BY(read_mutex_) = 0;           // of what was read
  bool unreadable_ WEFT_GUARDED_BY(read_mutex_) = false;             // the block may be gone
};

}  // namespace weft
