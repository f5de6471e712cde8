#include "comm/transport/doorbell.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <sys/socket.h>
#include <sys/un.h>

#include "base/new_fd.h"
#include "base/status.h"
#include "fmt/format.h"

namespace weft {
namespace {

// As many bytes as the system keeps of an address that is no path.
socklen_t AddressOf(const Doorbell::Place& place, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  std::memcpy(address->sun_path + 1, place.name, sizeof(place.name));
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + sizeof(place.name));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Doorbell>> Doorbell::Make(Place* places, int self, Random& random) {
  uint64_t number = 0;
  WEFT_RETURN_IF_ERROR(random.Fill(&number, sizeof(number)));
  const std::string name = fmt::format("weft-bell-{:016x}", number);
  std::memcpy(places[self].name, name.data(), sizeof(places[self].name));
  UniqueFd fd = MakeSocket(AF_UNIX, SOCK_DGRAM);
  if (!fd.valid())
    return RefusedCallError(errno, "socket", "could not make a socket to be woken by");
  sockaddr_un address;
  const socklen_t bytes = AddressOf(places[self], &address);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) {
    return SystemError(errno, "could not name the socket to be woken by");
  }
  return std::unique_ptr<Doorbell>(new Doorbell(places, self, std::move(fd)));
}

// (D2)
void Doorbell::Arm() {
  char byte;
  while (recv(socket_.get(), &byte, sizeof(byte), MSG_DONTWAIT) >= 0) {
  }
  places_[self_].asleep.store(1, std::memory_order_seq_cst);
}

// (D1)
void Doorbell::Wake(int place) {
  if (places_[place].asleep.exchange(0, std::memory_order_seq_cst) != 0) Send(place);
}

void Doorbell::Send(int place) {
  sockaddr_un address;
  const socklen_t bytes = AddressOf(places_[place], &address);
  const ssize_t sent = sendto(socket_.get(), nullptr, 0, MSG_DONTWAIT | MSG_NOSIGNAL,
                              reinterpret_cast<const sockaddr*>(&address), bytes);
  const uint64_t bit = uint64_t{1} << place;
  owed_ &= ~bit;
  // Full of datagrams it is readable as well.
  if (sent >= 0 || errno == EAGAIN || errno == EWOULDBLOCK) return;
  (errno == ECONNREFUSED || errno == ENOENT ? gone_ : owed_) |= bit;
}

void Doorbell::PayOwed() {
  for (int place = 0; owed_ >> place != 0; ++place) {
    if ((owed_ >> place & 1) != 0) Send(place);
    if (place == kRanksMax - 1) return;
  }
}

void Doorbell::Leave(int size) {
  places_[self_].left.store(1, std::memory_order_seq_cst);
  for (int place = 0; place < size; ++place) {
    if (place != self_) Ring(place);
  }
}

}  // namespace weft
