#include "comm/node/node_peer.h"

#include <cerrno>
#include <fstream>
#include <map>
#include <utility>

#include <sys/uio.h>

#include "base/status.h"
#include "comm/node/heap.h"
#include "fmt/format.h"

namespace weft {
namespace {

// The peers that groups of this process hold, by pid, start time and heap.
struct Registry {
  using Key = std::pair<std::pair<int32_t, uint64_t>, uint64_t>;
  Mutex mutex;
  std::map<Key, std::weak_ptr<NodePeer>> peers WEFT_GUARDED_BY(mutex);
};

Registry& PeerRegistry() {
  static Registry& registry = *new Registry;
  return registry;
}

Registry::Key KeyOf(const NodePeer::Identity& identity) {
  return {{identity.pid, identity.start_time}, identity.heap_id};
}

// The third field of /proc/<pid>/stat; the second is in parentheses and may hold anything.
char ReadState(int32_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t end = line.rfind(')');
  return end != std::string::npos && end + 2 < line.size() ? line[end + 2] : '?';
}

}  // namespace

absl::StatusOr<std::shared_ptr<NodePeer>> NodePeer::Self() {
  Registry& registry = PeerRegistry();
  MutexLock lock(registry.mutex);
  WEFT_ASSIGN_OR_RETURN(const Heap::Announcement heap, ProcessHeap().Retain());
  const ProcessIdentity self = SystemProc().Self();
  const Identity identity{self.pid, self.start_time, heap.id, heap.bytes, self.host};
  std::weak_ptr<NodePeer>& known = registry.peers[KeyOf(identity)];
  if (std::shared_ptr<NodePeer> peer = known.lock()) {
    ProcessHeap().Release();  // it keeps its own
    return peer;
  }
  std::shared_ptr<NodePeer> peer(new NodePeer);
  peer->identity_ = identity;
  peer->identity_.heap_id_address = reinterpret_cast<uintptr_t>(&peer->identity_.heap_id);
  peer->TryToRead();
  peer->is_self_ = true;
  peer->base_ = heap.base;
  known = peer;
  return peer;
}

absl::StatusOr<std::shared_ptr<NodePeer>> NodePeer::Open(const Identity& identity, UniqueFd fd) {
  Registry& registry = PeerRegistry();
  MutexLock lock(registry.mutex);
  std::weak_ptr<NodePeer>& known = registry.peers[KeyOf(identity)];
  if (std::shared_ptr<NodePeer> peer = known.lock()) return peer;
  WEFT_ASSIGN_OR_RETURN(Pages pages, Pages::Adopt(std::move(fd), identity.heap_bytes));
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<PeerProcess> process,
                        SystemProc().Open(identity.pid, identity.start_time));
  pages.CloseFd();
  std::shared_ptr<NodePeer> peer(new NodePeer);
  peer->identity_ = identity;
  peer->base_ = reinterpret_cast<char*>(pages.data());
  peer->pages_ = std::move(pages);
  peer->process_ = std::move(process);
  peer->TryToRead();
  known = peer;
  return peer;
}

// Another process may be in another namespace, where the number means somebody else, or the number
// may have been given to somebody else: hence the id, which is read with the rest in one call and
// so in the same process.
absl::Status NodePeer::Read(uint64_t address, void* to, size_t bytes) const {
  uint64_t found = 0;
  const iovec local[] = {{to, bytes}, {&found, sizeof(found)}};
  const iovec remote[] = {{reinterpret_cast<void*>(address), bytes},
                          {reinterpret_cast<void*>(identity_.heap_id_address), sizeof(found)}};
  const ssize_t got = process_vm_readv(identity_.pid, local, 2, remote, 2, 0);
  int error = got < 0 ? errno : EFAULT;
  if (got == static_cast<ssize_t>(bytes + sizeof(found))) {
    if (found == identity_.heap_id) return absl::OkStatus();
    error = ESRCH;
  }
  return SystemError(
      error, fmt::format("process_vm_readv of {} bytes of process {}", bytes, identity_.pid));
}

void NodePeer::TryToRead() {
  readable_ = Read(identity_.heap_id_address, nullptr, 0).ok();
}

NodePeer::~NodePeer() {
  if (is_self_) ProcessHeap().Release();
}

std::optional<ExitInfo> NodePeer::Ended() {
  if (is_self_) return std::nullopt;
  MutexLock lock(mutex_);
  if (!process_->Ended()) return std::nullopt;
  return process_->Exit();
}

std::string NodePeer::StateName() const {
  switch (ReadState(identity_.pid)) {
    case 'R':
      return "running";
    case 'S':
      return "sleeping";
    case 'D':
      return "in an uninterruptible system call";
    case 'T':
      return "stopped";
    case 't':
      return "stopped by a debugger";
    case 'Z':
    case 'X':
      return "ended";
    default:
      return "gone";
  }
}

}  // namespace weft
