// A process is known by pid, start time and heap, and there is one object for it however many groups it is in: a heap is
// as large as the machine's memory in addresses, so mapping it once per group would run out of them. Numbers tell nothing
// across namespaces, so death is known by the lifeline, and memory is read by pid only if the heap's id is found where
// that process has it.
#include "comm/node/node_peer.h"

#include <atomic>
#include <bit>
#include <cerrno>
#include <map>
#include <new>
#include <utility>

#include <sys/mman.h>
#include <sys/uio.h>

#include "base/seams.h"
#include "base/status.h"
#include "comm/group/of_this_process.h"
#include "comm/node/heap.h"
#include "fmt/format.h"

namespace weft {
namespace {

using Key = std::pair<std::pair<int32_t, uint64_t>, uint64_t>;

Key KeyOf(const NodePeer::Identity& identity) {
  return {{identity.pid, identity.start_time}, identity.heap_id};
}

// The peers that groups of this process hold, by pid, start time and heap. Each takes itself out at its end.
struct Registry {
  Mutex mutex;
  std::map<Key, std::weak_ptr<NodePeer>> peers WEFT_GUARDED_BY(mutex);

  std::shared_ptr<NodePeer> Find(const NodePeer::Identity& identity) WEFT_REQUIRES(mutex) {
    const auto known = peers.find(KeyOf(identity));
    return known == peers.end() ? nullptr : known->second.lock();
  }
};

Registry& PeerRegistry() {
  return OfThisProcess<Registry>();
}

// Where peers find the id of this process's heap for as long as it runs this program: they remember the place, and may read
// there when the last group has gone.
struct HeapIdPlace {
  std::atomic<uint64_t> id{0};
};

}  // namespace

absl::StatusOr<std::shared_ptr<NodePeer>> NodePeer::Self(int process_count) {
  Registry& registry = PeerRegistry();
  MutexLock lock(registry.mutex);
  WEFT_ASSIGN_OR_RETURN(const Heap::Announcement heap, ProcessHeap().Retain(process_count));
  const ProcessIdentity self = SystemSeams().proc->Self();
  const Identity identity{.pid = self.pid,
                          .start_time = self.start_time,
                          .heap_id = heap.id,
                          .heap_bytes = heap.bytes,
                          .host = self.host,
                          .files_address = reinterpret_cast<uintptr_t>(heap.files)};
  if (std::shared_ptr<NodePeer> peer = registry.Find(identity)) {
    ProcessHeap().Release();  // it keeps its own
    return peer;
  }
  std::shared_ptr<NodePeer> peer(new NodePeer);
  peer->identity_ = identity;
  std::atomic<uint64_t>& place = OfThisProcess<HeapIdPlace>().id;
  place.store(identity.heap_id, std::memory_order_relaxed);
  peer->identity_.heap_id_address = reinterpret_cast<uintptr_t>(&place);
  peer->TryToRead(identity.pid);
  peer->is_self_ = true;
  peer->maps_files_ = true;
  peer->base_ = heap.base;
  registry.peers[KeyOf(identity)] = peer;
  return peer;
}

absl::StatusOr<std::shared_ptr<NodePeer>> NodePeer::Open(const Identity& identity, UniqueFd fd,
                                                         Lifeline lifeline) {
  Registry& registry = PeerRegistry();
  MutexLock lock(registry.mutex);
  if (std::shared_ptr<NodePeer> peer = registry.Find(identity)) return peer;
  absl::StatusOr<Pages> adopted = Pages::Adopt(std::move(fd), identity.heap_bytes);
  if (!adopted.ok()) {
    return Annotate(adopted.status(),
                    fmt::format("mapping the heap of process {}; if addresses are short, set "
                                "WEFT_HEAP_BYTES to less on all ranks: ",
                                identity.pid));
  }
  Pages pages = *std::move(adopted);
  // A forked child has no use for it, and would keep the memory when all of the job has ended. A dump would take pages for
  // all of its addresses, and the memory is the peer's.
  KeepFromForksAndDumps(pages.data(), pages.size());
  const bool by_pidfd = lifeline.kind == Lifeline::Kind::kPidfd;
  WEFT_ASSIGN_OR_RETURN(
      std::unique_ptr<PeerProcess> process,
      SystemSeams().proc->Watch(std::move(lifeline), identity.pid, identity.start_time));
  pages.CloseFd();
  std::shared_ptr<NodePeer> peer(new NodePeer);
  peer->identity_ = identity;
  peer->base_ = reinterpret_cast<char*>(pages.data());
  peer->pages_ = std::move(pages);
  peer->TryToRead(process->visible_pid());
  peer->maps_files_ =
      by_pidfd && peer->readable_ && peer->files_.Open(process->fd(), identity.files_address);
  {
    MutexLock own(peer->mutex_);
    peer->process_ = std::move(process);
  }
  registry.peers[KeyOf(identity)] = peer;
  return peer;
}

// Another process may be in another namespace, where the number means somebody else, or the number
// may have been given to somebody else: hence the id, which is read with the rest in one call and
// so in the same process.
absl::Status NodePeer::Read(uint64_t address, void* to, size_t bytes) const {
  uint64_t found = 0;
  const iovec local[] = {{to, bytes}, {&found, sizeof(found)}};
  const iovec remote[] = {{std::bit_cast<void*>(address), bytes},
                          {std::bit_cast<void*>(identity_.heap_id_address), sizeof(found)}};
  const ssize_t got = process_vm_readv(read_pid_, local, 2, remote, 2, 0);
  int error = got < 0 ? errno : EFAULT;
  if (got == static_cast<ssize_t>(bytes + sizeof(found))) {
    if (found == identity_.heap_id) return absl::OkStatus();
    error = ESRCH;
  }
  return SystemError(
      error, fmt::format("process_vm_readv of {} bytes of process {}", bytes, identity_.pid));
}

// Under the pid that the process has for itself, which is its pid here unless the namespaces differ, or under that which it
// has in /proc, which may be of another namespace than this process: the id tells whether it is the right one.
void NodePeer::TryToRead(int32_t visible_pid) {
  for (const int32_t pid : {identity_.pid, visible_pid}) {
    if (readable_ || pid <= 0) continue;
    read_pid_ = pid;
    readable_ = Read(identity_.heap_id_address, nullptr, 0).ok();
  }
}

bool NodePeer::RunsAnotherProgram() const {
  if (!readable_ || is_self_) return false;
  uint64_t found = 0;
  const iovec local{&found, sizeof(found)};
  const iovec remote{std::bit_cast<void*>(identity_.heap_id_address), sizeof(found)};
  const ssize_t got = process_vm_readv(read_pid_, &local, 1, &remote, 1, 0);
  return got < 0 ? errno == EFAULT : found != identity_.heap_id;
}

absl::StatusOr<char*> NodePeer::FindInFile(uint64_t place, uint64_t bytes) {
  if (is_self_) return ProcessHeap().AddressInFile(place, bytes);
  if (maps_files_) return files_.At(*this, place, bytes);
  return MakeError(WEFT_CORRUPT, fmt::format("process {} announced a file that it has registered, "
                                             "which this process may not map",
                                             identity_.pid));
}

NodePeer::~NodePeer() {
  if (!origin_.here()) {
    files_.LetGo();
    // Not mapped in a child, which may have other things there.
    (void)new (std::nothrow) Pages(std::move(pages_));
    return;
  }
  {
    Registry& registry = PeerRegistry();
    MutexLock lock(registry.mutex);
    // Meanwhile there may be another one for the same process.
    const auto known = registry.peers.find(KeyOf(identity_));
    if (known != registry.peers.end() && known->second.expired()) registry.peers.erase(known);
  }
  if (is_self_) ProcessHeap().Release();
}

int NodePeer::lifeline() const {
  if (is_self_) return -1;
  MutexLock lock(mutex_);
  return process_->fd();
}

std::optional<ExitInfo> NodePeer::Ended() {
  if (is_self_) return std::nullopt;
  MutexLock lock(mutex_);
  if (!process_->Ended()) return std::nullopt;
  return process_->Exit();
}

std::optional<int64_t> NodePeer::CpuWaitNs() const {
  if (is_self_) return std::nullopt;
  MutexLock lock(mutex_);
  const int32_t pid = process_->visible_pid();
  return pid > 0 ? ReadCpuWaitNs("", pid) : std::nullopt;
}

ProcessState NodePeer::State() const {
  if (is_self_) return ProcessState::kRunning;
  MutexLock lock(mutex_);
  return process_->State();
}

std::string NodePeer::StateName() const {
  const ProcessState state = State();
  if (state != ProcessState::kNotKnown) return ProcessStateText(state);
  MutexLock lock(mutex_);
  return process_->visible_pid() == 0 ? "of another pid namespace, not ended"
                                      : ProcessStateText(state);
}

bool NodePeer::Stopped() const {
  return IsHeld(State());
}

}  // namespace weft
