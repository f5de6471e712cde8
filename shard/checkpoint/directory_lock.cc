#include "shard/checkpoint/directory_lock.h"

#include <algorithm>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/checkpoint/checkpoint_names.h"

namespace weft {
namespace {

constexpr int64_t kPauseNs = 200'000'000;
constexpr int64_t kSecondNs = 1'000'000'000;
// So many owners may have ended while each took over from the one before.
constexpr size_t kClaimsMax = 64;
// So often an owner may go between two looks.
constexpr int kTriesMax = 1000;

// The owner in that file; NOT_FOUND of absl if it is not there. One that cannot be understood is nobody's, whose token is 0: nothing but the beats of
// nobody, of which there are none, tells whether it is still being written.
absl::StatusOr<LockOwner> ReadOwner(Files& files, const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWholeFile(files, path, kLockOwnerTextMax);
  if (!text.ok()) {
    if (ResultOf(text.status()) == WEFT_CORRUPT) return LockOwner{};
    return text.status();
  }
  const absl::StatusOr<LockOwner> owner = ReadLockOwner(path, *text);
  return owner.ok() ? *owner : LockOwner{};
}

absl::Status WriteNew(Files& files, const std::string& path, const std::string& text) {
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files.Create(path, 0));
  WEFT_RETURN_IF_ERROR(file->Write(text.data(), text.size()));
  WEFT_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

void RemoveQuietly(Files& files, const std::string& path) {
  const absl::Status removed = files.Remove(path);
  if (!removed.ok() && !absl::IsNotFound(removed))
    LogDebug("checkpoint: ", FromAbsl(removed.message()));
}

// Removes a file if its text is that of the owner with this token. Tries twice: nobody else may take what a living process leaves.
void RemoveOwn(Files& files, const std::string& path, uint64_t token) {
  for (int i = 0; i < 2; ++i) {
    const absl::StatusOr<LockOwner> owner = ReadOwner(files, path);
    if (absl::IsNotFound(owner.status())) return;
    if (!owner.ok()) continue;
    if (owner->token != token || files.Remove(path).ok()) return;
  }
}

// How often that owner has beaten; -1: never yet.
int64_t Beats(Files& files, const std::string& root, uint64_t token) {
  int64_t most = -1;
  const auto names = files.List(root);
  if (!names.ok()) return most;
  for (const std::string& name : *names)
    most = std::max(most, BeatsOf(name, token).value_or(-1));
  return most;
}

}  // namespace

LockSighting LookAtLock(Files& files, const std::string& root, int64_t now_ns) {
  const absl::StatusOr<LockOwner> owner = ReadOwner(files, JoinPath(root, kLockName));
  if (!owner.ok()) return {};
  return {.token = owner->token, .beats = Beats(files, root, owner->token), .since_ns = now_ns};
}

// One attempt of one process, from the file with its text to the lock, or to the sentence that refuses it.
class DirectoryLock::Taking {
 public:
  Taking(Files& files, Proc& proc, Patience& patience, const LockRequest& request)
      : files_(files),
        proc_(proc),
        patience_(patience),
        request_(request),
        seen_(request.seen),
        lock_(JoinPath(request.root, kLockName)),
        wanted_(JoinPath(request.root, LockWantedName(request.self.token))) {}

  ~Taking() { RemoveQuietly(files_, wanted_); }

  Taking(const Taking&) = delete;
  Taking& operator=(const Taking&) = delete;

  absl::Status Run() {
    absl::Status taken = TryAgainAndAgain();
    if (!taken.ok()) LetGo();
    return taken;
  }

 private:
  absl::Status TryAgainAndAgain() {
    WEFT_RETURN_IF_ERROR(WriteNew(files_, wanted_, LockOwnerText(request_.self)));
    for (int i = 0; i < kTriesMax; ++i) {
      WEFT_ASSIGN_OR_RETURN(const bool taken, Try());
      if (taken) {
        TidyUp();
        return absl::OkStatus();
      }
      WEFT_RETURN_IF_ERROR(CheckInterrupt("waiting to see whether another job still saves"));
    }
    return MakeError(WEFT_BAD_STATE, StrCat("the lock ", lock_,
                                            " changes again and again; do "
                                            "several jobs start to save there?"));
  }

  // False: what was found has changed, or is to be looked at again.
  absl::StatusOr<bool> Try() {
    WEFT_RETURN_IF_ERROR(Place(lock_));
    WEFT_ASSIGN_OR_RETURN(const std::vector<LockOwner> owners, Owners());
    if (owners.empty()) return false;
    if (owners.front().token == request_.self.token) return true;
    // The last one is about to replace those before it.
    const LockOwner& owner = owners.back();
    if (owner.token != request_.self.token) {
      WEFT_ASSIGN_OR_RETURN(const bool ended, HasEnded(owner));
      if (!ended) return false;
      if (owner.token == 0 && owners.size() > 1) {
        // A claim that its process did not come to write: nobody can follow it.
        RemoveQuietly(files_,
                      JoinPath(request_.root, LockClaimName(owners[owners.size() - 2].token)));
        return false;
      }
      WEFT_ASSIGN_OR_RETURN(const bool claimed, Claim(owner));
      if (!claimed) return false;
    }
    return Replace(owners);
  }

  // Gives the file with this process's text that name, if nobody's has it. Whose has it is to be read afterwards.
  absl::Status Place(const std::string& name) {
    const absl::Status linked = files_.Link(wanted_, name);
    if (linked.ok() || absl::IsAlreadyExists(linked)) return absl::OkStatus();
    // A file system without second names: then a new file, of which others may see less than all.
    const absl::Status written = WriteNew(files_, name, LockOwnerText(request_.self));
    return absl::IsAlreadyExists(written) ? absl::OkStatus() : written;
  }

  // The owner, and who takes over from it, and from that one; empty if there is none any more.
  absl::StatusOr<std::vector<LockOwner>> Owners() {
    std::vector<LockOwner> owners;
    std::string path = lock_;
    while (true) {
      const absl::StatusOr<LockOwner> owner = ReadOwner(files_, path);
      if (absl::IsNotFound(owner.status())) return owners;
      WEFT_RETURN_IF_ERROR(owner.status());
      owners.push_back(*owner);
      if (owner->token == request_.self.token || owners.size() == kClaimsMax) return owners;
      path = JoinPath(request_.root, LockClaimName(owner->token));
      // Nobody's has no successor but its own.
      if (owners.size() > 1 && owner->token == 0) return owners;
    }
  }

  // An error that names it if it lives; false to look again.
  absl::StatusOr<bool> HasEnded(const LockOwner& owner) {
    if (IsOfSameJob(request_.self, owner)) return true;
    const OwnerLife life = LifeOf(proc_, request_.self, owner);
    if (life == OwnerLife::kEnded) return true;
    if (life == OwnerLife::kLives) return Refusal(owner, "which lives");
    return HasFallenSilent(owner);
  }

  absl::StatusOr<bool> HasFallenSilent(const LockOwner& owner) {
    const int64_t now_ns = patience_.NowNs();
    const bool known = seen_.since_ns > 0 && seen_.token == owner.token;
    if (known && now_ns >= seen_.since_ns + kLockPatienceNs) LookAnew();
    const int64_t beats = Beats(files_, request_.root, owner.token);
    if (known && seen_.beats != beats) return Refusal(owner, "which has given a sign of life");
    if (!known) seen_ = {.token = owner.token, .beats = beats, .since_ns = now_ns};
    const int64_t end_ns = seen_.since_ns + kLockPatienceNs;
    if (now_ns >= end_ns) return true;
    if (now_ns >= request_.deadline_ns) {
      return Refusal(owner, StrCat("of which nobody can tell yet whether it lives: try again in ",
                                   (end_ns - now_ns) / kSecondNs + 1, " s"));
    }
    if (!waiting_) {
      LogWarn("checkpoint: ", Describe(owner), " saves in ", request_.root,
              "; it is waited for up to ", (end_ns - now_ns) / kSecondNs + 1,
              " s for a sign that it still lives");
    }
    waiting_ = true;
    patience_.PauseUntil(std::min({end_ns, request_.deadline_ns, now_ns + kPauseNs}));
    return false;
  }

  // A client of a network's file system may show names of a minute ago, until it changes some itself.
  void LookAnew() {
    const std::string look = JoinPath(request_.root, LockLookName(request_.self.token));
    const auto made = files_.Create(look, 0);
    RemoveQuietly(files_, look);
  }

  absl::Status Refusal(const LockOwner& owner, std::string_view what) const {
    return MakeError(
        WEFT_BAD_STATE,
        StrCat("another job saves in ", request_.root, ": ", Describe(owner), ", ", what,
               "; two jobs must not save in one directory: choose another one, or "
               "wait until that job has ended"));
  }

  // Whether this process alone takes over from that owner.
  absl::StatusOr<bool> Claim(const LockOwner& owner) {
    const std::string claim = JoinPath(request_.root, LockClaimName(owner.token));
    WEFT_RETURN_IF_ERROR(Place(claim));
    const absl::StatusOr<LockOwner> claimer = ReadOwner(files_, claim);
    if (absl::IsNotFound(claimer.status())) return false;
    WEFT_RETURN_IF_ERROR(claimer.status());
    return claimer->token == request_.self.token;
  }

  absl::StatusOr<bool> Replace(const std::vector<LockOwner>& owners) {
    // Somebody may have done all of it since it was looked at: then the claim was no more than a name.
    const absl::StatusOr<LockOwner> now = ReadOwner(files_, lock_);
    const bool unchanged = now.ok() && now->token == owners.front().token;
    if (unchanged) WEFT_RETURN_IF_ERROR(ReplaceLock());
    for (auto owner = owners.rbegin(); owner != owners.rend(); ++owner) {
      const std::string claim = JoinPath(request_.root, LockClaimName(owner->token));
      const absl::StatusOr<LockOwner> claimer = ReadOwner(files_, claim);
      const bool mine = claimer.ok() && claimer->token == request_.self.token;
      if (unchanged || mine) RemoveQuietly(files_, claim);
    }
    return false;
  }

  absl::Status ReplaceLock() {
    const absl::Status replaced = files_.Rename(wanted_, lock_);
    const absl::StatusOr<LockOwner> owner = ReadOwner(files_, lock_);
    if (owner.ok() && owner->token == request_.self.token) return absl::OkStatus();
    return replaced;
  }

  // Of a taking that has failed, whatever it had come to.
  void LetGo() {
    RemoveOwn(files_, lock_, request_.self.token);
    const auto names = files_.List(request_.root);
    if (!names.ok()) return;
    for (const std::string& name : *names) {
      if (TokenOfLockFile(name))
        RemoveOwn(files_, JoinPath(request_.root, name), request_.self.token);
    }
  }

  // What those have left whose lock this was, or who wanted it.
  void TidyUp() {
    const auto names = files_.List(request_.root);
    if (!names.ok()) return;
    for (const std::string& name : *names) {
      const std::optional<uint64_t> token = TokenOfLockFile(name);
      if (token && *token != request_.self.token)
        RemoveQuietly(files_, JoinPath(request_.root, name));
    }
  }

  Files& files_;
  Proc& proc_;
  Patience& patience_;
  const LockRequest& request_;
  LockSighting seen_;
  const std::string lock_;
  const std::string wanted_;
  bool waiting_ = false;
};

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::Take(Files& files, Proc& proc,
                                                                   Patience& patience,
                                                                   const LockRequest& request) {
  WEFT_RETURN_IF_ERROR(Taking(files, proc, patience, request).Run());
  std::unique_ptr<DirectoryLock> lock(new DirectoryLock(files, request.root, request.self));
  WEFT_RETURN_IF_ERROR(lock->beat_.Start());
  return lock;
}

DirectoryLock::~DirectoryLock() {
  if (lost_.ok()) RemoveOwn(files_, JoinPath(root_, kLockName), self_.token);
}

absl::Status DirectoryLock::Check() {
  WEFT_RETURN_IF_ERROR(lost_);
  const std::string path = JoinPath(root_, kLockName);
  absl::StatusOr<LockOwner> owner = ReadOwner(files_, path);
  if (absl::IsNotFound(owner.status())) {
    absl::Status written = WriteNew(files_, path, LockOwnerText(self_));
    if (!written.ok() && !absl::IsAlreadyExists(written)) return written;
    owner = ReadOwner(files_, path);
  }
  WEFT_RETURN_IF_ERROR(owner.status());
  if (owner->token == self_.token) return absl::OkStatus();
  lost_ = MakeError(
      WEFT_BAD_STATE,
      StrCat(Describe(*owner), " has taken over saving in ", root_,
             IsOfSameJob(self_, *owner)
                 ? ": another checkpoint object of this job saves there now; destroy this one"
                 : ", as this process gave no sign of life for a minute, or its lock was removed; "
                   "save in another directory"));
  return lost_;
}

}  // namespace weft
