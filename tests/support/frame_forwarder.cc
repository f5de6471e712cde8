#include "tests/support/frame_forwarder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <random>
#include <utility>

#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"

namespace weft::test {
namespace {

constexpr size_t kFrameBytesMax = 64 << 10;
constexpr size_t kLateFramesMax = 4096;
constexpr int kWantedBufferBytes = 4 << 20;
constexpr int kFramesAtATime = 64;
constexpr int64_t kMsNs = 1'000'000;

absl::StatusOr<UniqueFd> OpenInterface(const std::string& name) {
  UniqueFd fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL)));
  if (!fd.valid()) return SystemError(errno, "making a packet socket");
  sockaddr_ll address = {};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(if_nametoindex(name.c_str()));
  if (address.sll_ifindex == 0 ||
      bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return SystemError(errno, StrCat("reading frames of ", name));
  }
  packet_mreq all = {};
  all.mr_ifindex = address.sll_ifindex;
  all.mr_type = PACKET_MR_PROMISC;
  if (setsockopt(fd.get(), SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all)) != 0)
    return SystemError(errno, StrCat("reading all frames of ", name));
  // As much as this user may have: what does not fit is lost as well.
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &kWantedBufferBytes, sizeof(kWantedBufferBytes));
  return fd;
}

class Forwarder {
 public:
  Forwarder(UniqueFd first, UniqueFd second, const FrameFaults& faults, FrameCounts* counts)
      : ends_{std::move(first), std::move(second)},
        faults_(faults),
        counts_(counts),
        random_(faults.seed) {}

  absl::Status Run() {
    while (true) {
      pollfd items[2] = {{ends_[0].get(), POLLIN, 0}, {ends_[1].get(), POLLIN, 0}};
      if (poll(items, 2, late_.empty() ? -1 : 1) < 0 && errno != EINTR)
        return SystemError(errno, "waiting for frames");
      for (const int from : {0, 1})
        TakeSome(from);
      const int64_t now_ns = MonotonicNs();
      while (!late_.empty() && late_.begin()->first <= now_ns) {
        const auto& [to, frame] = late_.begin()->second;
        Send(to, frame.data(), frame.size());
        late_.erase(late_.begin());
      }
    }
  }

 private:
  bool Chance(double probability) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < probability;
  }

  void TakeSome(int from) {
    for (int i = 0; i < kFramesAtATime; ++i) {
      sockaddr_ll sender = {};
      socklen_t sender_bytes = sizeof(sender);
      const ssize_t bytes = recvfrom(ends_[from].get(), frame_, sizeof(frame_), 0,
                                     reinterpret_cast<sockaddr*>(&sender), &sender_bytes);
      if (bytes < 0) return;
      // What this process has sent there itself is shown as well.
      if (sender.sll_pkttype != PACKET_OUTGOING) Pass(1 - from, static_cast<size_t>(bytes));
    }
  }

  void Pass(int to, size_t bytes) {
    const uint64_t longest = counts_->longest.load();
    if (Chance(faults_.loss) || (longest > 0 && bytes > longest)) {
      counts_->lost.fetch_add(1);
      return;
    }
    counts_->forwarded.fetch_add(1);
    if (Chance(faults_.late) && late_.size() < kLateFramesMax) {
      counts_->late.fetch_add(1);
      const auto by_ns =
          static_cast<int64_t>(random_() % static_cast<uint64_t>(faults_.late_ms * kMsNs));
      late_.emplace(MonotonicNs() + by_ns, std::make_pair(to, std::string(frame_, bytes)));
      return;
    }
    Send(to, frame_, bytes);
    if (!Chance(faults_.doubled)) return;
    counts_->doubled.fetch_add(1);
    Send(to, frame_, bytes);
  }

  // One that there is no room for is lost.
  void Send(int to, const char* frame, size_t bytes) {
    (void)!send(ends_[to].get(), frame, bytes, MSG_DONTWAIT);
  }

  const UniqueFd ends_[2];
  const FrameFaults faults_;
  FrameCounts* const counts_;
  std::mt19937_64 random_;
  std::multimap<int64_t, std::pair<int, std::string>> late_;  // by when they are due
  char frame_[kFrameBytesMax];
};

}  // namespace

absl::Status ForwardFrames(const std::string& first, const std::string& second,
                           const FrameFaults& faults, FrameCounts* counts) {
  WEFT_ASSIGN_OR_RETURN(UniqueFd one, OpenInterface(first));
  WEFT_ASSIGN_OR_RETURN(UniqueFd other, OpenInterface(second));
  Forwarder forwarder(std::move(one), std::move(other), faults, counts);
  return forwarder.Run();
}

absl::Status TurnOffOffloads(const std::string& interface) {
  const UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return SystemError(errno, "making a socket");
  for (const uint32_t command : {ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_STXCSUM}) {
    ethtool_value value = {.cmd = command, .data = 0};
    ifreq request = {};
    std::strncpy(request.ifr_name, interface.c_str(), sizeof(request.ifr_name) - 1);
    request.ifr_data = reinterpret_cast<char*>(&value);
    if (ioctl(fd.get(), SIOCETHTOOL, &request) != 0)
      return SystemError(errno, StrCat("turning off what ", interface, " does for the kernel"));
  }
  return absl::OkStatus();
}

}  // namespace weft::test
