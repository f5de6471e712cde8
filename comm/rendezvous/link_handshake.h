// How the two ends of a connection between ranks prove to each other that they know the job's secret: the store's handshake
// (store_protocol.h), as a state machine that neither reads nor writes.
//
//   LinkHandshake handshake = LinkHandshake::Dialled(secret, {.rank = 3, .size = 1}, *seams.random);
//   ... read at most handshake.wanted() bytes, append them to `in` ...
//   WEFT_RETURN_IF_ERROR(handshake.Take(&in));
//   out += handshake.TakeOutput();
//   if (handshake.done()) ...                        // keys(), claim()
//
// Before the other side has proven itself, everything has a fixed length. What it wants to read is exact, so nothing of what
// follows the handshake is taken from the connection.
//
// Thread-safety: none; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/seams.h"
#include "comm/rendezvous/store_protocol.h"

namespace weft {

// What the dialling side says of itself, under its proof.
struct LinkClaim {
  int32_t rank = -1;
  int32_t size = 0;
  uint32_t connection = 0;  // of those with the other side
};

class LinkHandshake {
 public:
  // `secret` is of links of one kind alone, so that no side of them can be played to another kind.
  static LinkHandshake Dialled(std::string secret, const LinkClaim& claim, Random& random);
  static LinkHandshake Accepted(std::string secret, Random& random);

  // How many bytes may be read, with those that `in` has.
  size_t wanted() const;

  // Goes on with what has been read, and takes it off `*in` when it is complete. AUTH_FAILED if the other side does not know the
  // secret, CORRUPT if it speaks something else, UNSUPPORTED if it is of another version.
  absl::Status Take(std::string* in);

  // What is to be written.
  std::string TakeOutput();

  bool done() const { return state_ == State::kDone; }

  // Once done: of what follows.
  const SessionKeys& keys() const { return keys_; }

  const LinkClaim& claim() const { return claim_; }

 private:
  enum class State : uint8_t { kGreet, kServerHello, kClientHello, kVerdict, kDone };

  LinkHandshake(State state, std::string secret, const LinkClaim& claim, Random& random)
      : state_(state), secret_(std::move(secret)), claim_(claim), random_(&random) {}

  absl::Status Greet();
  absl::Status TakeServerHello(std::string* in);
  absl::Status TakeClientHello(std::string* in);
  absl::Status TakeVerdict(std::string* in);

  State state_;
  std::string secret_;
  LinkClaim claim_;
  Random* random_;
  std::string hello_;  // the server's, as sent
  std::string out_;
  SessionKeys keys_;
};

}  // namespace weft
