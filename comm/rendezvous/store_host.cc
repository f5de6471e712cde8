// The thread is detached and kept alive by the list of hosts, because a host may be released by whoever is about to exit.
// Whether it ends is decided in one place, ShouldEnd(), under the mutex that Retain() takes: a host that has decided to end is
// not handed out again. The list is locked over a fork, so that the child finds it whole.
#include "comm/rendezvous/store_host.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <thread>
#include <utility>

#include <unistd.h>

#include "base/hidden_thread.h"
#include "base/later.h"
#include "base/log.h"
#include "base/new_fd.h"
#include "base/notice_times.h"
#include "base/refused_call.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/rendezvous/name_owner.h"

namespace weft {
namespace {

constexpr int64_t kBindPauseNs = 20'000'000;

// The hosts whose threads run. Never destroyed: exit() may find a thread in its last lines.
struct Hosts {
  Mutex mutex;
  std::vector<std::shared_ptr<StoreHost>> running WEFT_GUARDED_BY(mutex);
  std::vector<std::shared_ptr<StoreHost>> of_parent;  // whose threads are the parent's
};

// A fork waits until no thread is in here. The child has none of the threads; it closes its copies of
// the listeners, or else nobody would be refused once the parent has ended. It touches nothing of the hosts but what
// is constant: their threads may have been anywhere.
Hosts& AllHosts() {
  static Hosts* const hosts = [] {
    pthread_atfork([]() WEFT_NO_THREAD_SAFETY_ANALYSIS { AllHosts().mutex.Lock(); },
                   []() WEFT_NO_THREAD_SAFETY_ANALYSIS { AllHosts().mutex.Unlock(); },
                   []() WEFT_NO_THREAD_SAFETY_ANALYSIS {
                     Hosts& of_child = AllHosts();
                     for (std::shared_ptr<StoreHost>& host : of_child.running) {
                       host->CloseListenersInChild();
                       of_child.of_parent.push_back(std::move(host));
                     }
                     of_child.running.clear();
                     of_child.mutex.Unlock();
                   });
    return new Hosts;
  }();
  return *hosts;
}

std::vector<std::shared_ptr<StoreHost>> RunningHosts() {
  Hosts& hosts = AllHosts();
  MutexLock lock(hosts.mutex);
  return hosts.running;
}

void StopAllAtExit() {
  const int64_t deadline_ns = MonotonicNs() + StoreHost::kExitNs;
  for (const auto& host : RunningHosts()) {
    host->Stop(deadline_ns);
  }
}

// Sleeps through poll, which the seams have.
void Pause(int64_t until_ns) {
  const absl::Status polled = SystemSeams().net->Poll({}, until_ns);
  if (!polled.ok()) LogDebug("store: ", FromAbsl(polled.message()));
}

// Of a socket name the owner is known, and NameOwner tells of it.
void SayRefused(const absl::Status& status, NoticeTimes* notices) {
  if (const int64_t waited_s = notices->Due(MonotonicNs()); waited_s > 0) {
    LogWarn("this process has waited ", waited_s,
            " s to host the store: ", FromAbsl(status.message()),
            "; the address must be one of this machine; if the port is in use, end whoever uses "
            "it, or give the job another one (MASTER_PORT)");
  }
}

// Fails only if the event is signalled already as often as it can count.
void Signal(int event) {
  const uint64_t one = 1;
  while (write(event, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

}  // namespace

StoreHost::StoreHost(const StoreServerOptions& options, UniqueFd wake, UniqueFd done)
    : wake_(std::move(wake)), done_(std::move(done)), pid_(getpid()) {
  server_.emplace(SystemSeams(), options);
}

absl::StatusOr<std::shared_ptr<StoreHost>> StoreHost::Start(const StoreServerOptions& options,
                                                            std::vector<Endpoint>* endpoints,
                                                            int64_t deadline_ns) {
  for (const std::shared_ptr<StoreHost>& host : RunningHosts()) {
    const bool same = !endpoints->empty() && host->endpoints_.front() == endpoints->front();
    if (same && host->pid_ == getpid() && host->Retain()) {
      *endpoints = host->endpoints_;
      return host;
    }
  }
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<StoreHost> host, Listen(options, endpoints, deadline_ns));
  host->endpoints_ = *endpoints;
  WEFT_RETURN_IF_ERROR(Launch(host));
  return host;
}

// An address may still be held by a host that is about to end: of this process, or of a job before it.
absl::StatusOr<std::shared_ptr<StoreHost>> StoreHost::Listen(const StoreServerOptions& options,
                                                             std::vector<Endpoint>* endpoints,
                                                             int64_t deadline_ns) {
  std::optional<NameOwner> owner;
  NoticeTimes notices(MonotonicNs());
  while (true) {
    UniqueFd wake = MakeEvent(0);
    UniqueFd done = wake.valid() ? MakeEvent(0) : UniqueFd();
    if (!done.valid()) return SystemError(errno, "could not make an event for the store's thread");
    auto host = std::make_shared<StoreHost>(options, std::move(wake), std::move(done));
    absl::Status status;
    const Endpoint* refused = nullptr;
    for (Endpoint& endpoint : *endpoints) {
      refused = &endpoint;
      status = host->server_->AddListener(&endpoint);
      if (!status.ok()) break;
    }
    if (status.ok()) {
      host->listeners_ = host->server_->listeners();
      return host;
    }
    const int64_t again_ns = Later(MonotonicNs(), kBindPauseNs);
    const bool hopeless = ResultOf(status) != WEFT_SYSTEM_ERROR || IsRefusedCall(status);
    if (hopeless || again_ns >= deadline_ns) {
      return Annotate(status, "could not host the store: ");
    }
    if (!owner) owner.emplace(*refused);
    WEFT_RETURN_IF_ERROR(owner->Look());
    if (refused->kind == Endpoint::Kind::kTcp) SayRefused(status, &notices);
    Pause(again_ns);
  }
}

absl::Status StoreHost::Launch(const std::shared_ptr<StoreHost>& host) {
  static const bool registered = std::atexit(StopAllAtExit) == 0;
  if (!registered) LogDebug("store: could not register for exit");
  Hosts& hosts = AllHosts();
  {
    MutexLock lock(hosts.mutex);
    hosts.running.push_back(host);
  }
  absl::StatusOr<std::thread> started = StartHiddenThread("weft-store", [host] { host->Run(); });
  if (started.ok()) {
    started->detach();
    return absl::OkStatus();
  }
  MutexLock lock(hosts.mutex);
  hosts.running.pop_back();
  return Annotate(started.status(), "the store: ");
}

bool StoreHost::Retain() {
  MutexLock lock(mutex_);
  if (ending_) return false;
  ++holders_;
  new_world_ = true;
  end_by_ns_ = INT64_MAX;
  return true;
}

void StoreHost::Release() {
  {
    MutexLock lock(mutex_);
    if (--holders_ == 0) end_by_ns_ = std::min(end_by_ns_, MonotonicNs() + kLingerNs);
  }
  Wake();
}

bool StoreHost::Stop(int64_t deadline_ns) {
  if (pid_ != getpid()) return true;  // a forked child has no such thread
  {
    MutexLock lock(mutex_);
    holders_ = 0;
    end_by_ns_ = std::min(end_by_ns_, deadline_ns);
  }
  Wake();
  // The thread itself ends at the deadline; closing takes it a moment.
  PollItem item{.handle = done_.get(), .want_read = true};
  const absl::Status polled = SystemSeams().net->Poll({&item, 1}, Later(deadline_ns, kExitNs));
  return polled.ok() && item.readable;
}

void StoreHost::CloseListenersInChild() {
  for (const int listener : listeners_)
    SystemSeams().net->Close(listener);
}

void StoreHost::Wake() {
  Signal(wake_.get());
}

bool StoreHost::ShouldEnd() {
  MutexLock lock(mutex_);
  if (std::exchange(new_world_, false)) server_->ForgetWorld();
  ending_ = server_->Deserted() || (holders_ <= 0 && server_->client_count() == 0) ||
            MonotonicNs() >= end_by_ns_;
  return ending_;
}

void StoreHost::Run() {
  std::vector<PollItem> items;
  while (!ShouldEnd()) {
    items.clear();
    server_->AppendPollItems(&items);
    items.push_back({.handle = wake_.get(), .want_read = true});
    int64_t wake_ns = server_->NextWakeNs();
    {
      MutexLock lock(mutex_);
      wake_ns = std::min(wake_ns, end_by_ns_);
    }
    if (const absl::Status polled = SystemSeams().net->Poll(items, wake_ns); !polled.ok()) {
      LogWarn("store: ", FromAbsl(polled.message()), "; it stops serving");
      break;
    }
    uint64_t count = 0;
    while (read(wake_.get(), &count, sizeof(count)) < 0 && errno == EINTR) {
    }
    server_->Step();
  }
  {
    MutexLock lock(mutex_);
    ending_ = true;
  }
  Hosts& hosts = AllHosts();
  {
    // At once for whoever forks: its child closes the listeners of hosts that run.
    MutexLock lock(hosts.mutex);
    std::erase_if(hosts.running, [this](const auto& host) { return host.get() == this; });
    server_.reset();
  }
  Signal(done_.get());
}

}  // namespace weft
