// The bytes between a store and its clients: a fixed-size mutual handshake, then sealed frames.
//
//   server -> client  ServerHello  48 bytes   magic, version, flags, nonce
//   client -> server  ClientHello  88 bytes   magic, version, rank, size, nonce, proof
//   server -> client  Verdict      48 bytes   magic, version, code, proof
//   then frames       header 20 | body | tag 16
//
// Proofs are HMAC-SHA256 over everything said so far, under keys that HKDF makes from the job's
// secret and both nonces, one per direction: nothing can be reflected or replayed, and both sides
// learn that the other one knows the secret. Before the verdict every message has a fixed length, so
// a stranger cannot make anybody allocate. A frame carries its number, the membership epoch and a
// tag; anything out of order or of another epoch is refused.
// A store without a secret uses an empty one: the same bytes, no protection; see StoreServer.
//
// Magic and version stand at the same place in every version, so that both sides can print both.
// Thread-safety: pure functions and values. docs/design/002-bootstrap.md says why it looks like this.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/rendezvous/store.h"

namespace weft {

constexpr std::string_view kStoreMagic = "weft-st\n";
constexpr uint16_t kStoreVersion = 2;
constexpr size_t kStorePrefixBytes = 10;  // magic and version
constexpr size_t kNonceBytes = 32;
constexpr size_t kProofBytes = 32;
constexpr size_t kTagBytes = 16;
constexpr size_t kServerHelloBytes = 48;
constexpr size_t kClientHelloBytes = 88;
constexpr size_t kVerdictBytes = 48;
constexpr size_t kFrameHeaderBytes = 20;
// The largest body: a value, its key and their lengths.
constexpr size_t kFrameBodyBytesMax = kStoreValueBytesMax + kStoreKeyBytesMax + 64;

using Nonce = std::array<uint8_t, kNonceBytes>;

enum class Refusal : uint16_t {
  kNone = 0,
  kGarbage,       // not this protocol at all
  kWrongVersion,  // this protocol, another version
  kWrongSecret,   // or a replayed handshake
  kTooSlow,       // no complete handshake within its deadline
  kCrowded,       // gave way to newer connections
  kForeignUser,   // another user's process, on a socket for this user only
  kBadFrame,      // a frame out of order, of another epoch, too long, or with a wrong tag
};
constexpr int kRefusalCount = 8;
// "wrong secret", ...
const char* RefusalName(Refusal refusal);

struct ServerHello {
  uint16_t version = kStoreVersion;
  bool needs_secret = false;
  Nonce nonce = {};
};

struct ClientHello {
  uint16_t version = kStoreVersion;
  int32_t rank = -1;
  int32_t size = 0;
  uint32_t connection = 0;  // of those of a link between ranks; of a store always 0
  Nonce nonce = {};
};

std::string EncodeServerHello(const ServerHello& hello);
// CORRUPT if the bytes are not a store's; a version other than kStoreVersion is not an error here.
absl::StatusOr<ServerHello> DecodeServerHello(std::string_view bytes);

// Both sides' proof that they know the secret, and the keys of what follows.
struct SessionKeys {
  std::string client_proof;
  std::string server_proof;
  std::string client_key;  // tags of the client's frames
  std::string server_key;  // tags of the server's frames
};

// `server_hello` and `client_fields` are the bytes as sent, the latter without its proof.
SessionKeys MakeSessionKeys(std::string_view secret, std::string_view server_hello,
                            std::string_view client_fields);

// The fields of a client hello, without the proof that follows them.
std::string EncodeClientFields(const ClientHello& hello);
constexpr size_t kClientFieldsBytes = kClientHelloBytes - kProofBytes;

struct Verdict {
  uint16_t version = kStoreVersion;
  Refusal refusal = Refusal::kNone;
  std::string proof;  // kProofBytes
};

std::string EncodeVerdict(const Verdict& verdict);
absl::StatusOr<Verdict> DecodeVerdict(std::string_view bytes);
absl::StatusOr<ClientHello> DecodeClientFields(std::string_view bytes);

// kNone while `bytes`, the first of a connection, may still become a hello of any version.
Refusal CheckPrefix(std::string_view bytes);
// "HTTP", "TLS", ... or "unknown bytes": what a stranger seems to speak.
const char* GuessProtocol(std::string_view bytes);

enum class FrameType : uint16_t {
  kSet = 1,     // key, value -> kDone
  kWait = 2,    // key, waits? -> kValue when it is there; kAbsent at once if it may not wait
  kAdd = 3,     // key, delta -> kNumber
  kCancel = 4,  // the kWait before it; no answer but what is already under way
  kLeave = 5,   // the client is done
  kRemove = 6,  // key -> kDone
  kDone = 16,
  kValue = 17,
  kAbsent = 18,
  kNumber = 19,
  kRefused = 20,  // result code, sentence
};

struct Frame {
  FrameType type = FrameType::kDone;
  uint64_t request = 0;  // the client's number of its request, repeated in the answer
  std::string body;
};

// Seals the frames of one direction.
class FrameSealer {
 public:
  FrameSealer(std::string key, uint32_t epoch) : key_(std::move(key)), epoch_(epoch) {}

  // Appends the frame to `*out`.
  void Seal(const Frame& frame, std::string* out);

 private:
  std::string key_;
  uint32_t epoch_;
  uint64_t sequence_ = 0;
};

// Opens them on the other side.
class FrameOpener {
 public:
  FrameOpener(std::string key, uint32_t epoch) : key_(std::move(key)), epoch_(epoch) {}

  // Takes the first frame off `*in`. False if it is not complete yet; CORRUPT if it is wrong: the
  // connection is then of no use any more.
  absl::StatusOr<bool> Open(std::string* in, Frame* frame);

 private:
  std::string key_;
  uint32_t epoch_;
  uint64_t sequence_ = 0;
};

}  // namespace weft
