// What two ranks have between them over UCX, as a stream for their link: bytes are said in messages, large parts go by themselves.
//
//   UcxLine line(port, seams, {.self = 0, .peer = 3, .secret = secret});
//   line.Connect(address);
//   link.Attach(line.MakeStream());
//
// What is said begins with a proof of the job's secret, since whoever reaches this rank's ports can talk to UCX; a part goes by a tag that
// nobody else can know. Nothing is encrypted.
//
// Thread-safety: none; the transport's lock. Outlives its stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <sys/uio.h>

#include "absl/status/status.h"
#include "base/seams.h"
#include "comm/transport/byte_stream.h"
#include "comm/transport/ucx/ucx_inbox.h"
#include "comm/transport/ucx/ucx_port.h"

namespace weft {

// In front of what is said.
struct UcxHead {
  enum class Kind : uint16_t {
    kBytes = 1,
    kBye = 2,      // the last that is said
    kByeHeard = 3  // not numbered
  };
  static constexpr size_t kProofBytes = 16;

  char proof[kProofBytes];
  uint64_t number;
  int32_t from;
  Kind kind;
  uint16_t unused;
};

static_assert(sizeof(UcxHead) == 32);

class UcxLine {
 public:
  struct Ends {
    int self = 0;
    int peer = 0;
    std::string_view secret;
  };

  // Parts that are smaller cost less as bytes, copied twice; larger ones would keep others waiting.
  static constexpr PlacedParts kPlaced{.bytes_min = 32 << 10, .bytes_max = 4 << 20};

  UcxLine(UcxPort& port, const Seams& seams, const Ends& ends);

  UcxLine(const UcxLine&) = delete;
  UcxLine& operator=(const UcxLine&) = delete;

  absl::Status Connect(const std::string& address);

  std::unique_ptr<ByteStream> MakeStream();

  // Of the peer, if its proof is right; else nothing.
  void Hear(const UcxHead& head, std::string_view bytes);
  void Lose(std::string_view why);

  // Something can be done about it now that no descriptor tells of. `wants_to_write`: bytes or a part wait.
  bool Ready(bool wants_to_write);

  // No more is said on either side, or it may be: the peer knows, or cannot.
  void SayBye();

  bool PartedWell() const { return !connected() || lost_ || inbox_.ended() || bye_heard_; }

  // The peer is told that its last word was heard.
  void AnswerBye();

  // Ends the connection, after all that was said if it can be.
  void Disconnect();

 private:
  class Stream;

  // A part under way in one direction.
  struct Slot {
    bool active = false;
    UcxPart* part = nullptr;  // nullptr: it has ended
    UcxAnswer answer = UcxAnswer::kDone;
  };

  bool connected() const { return peer_ != nullptr; }

  UcxAnswer Say(UcxHead::Kind kind, uint64_t number, std::span<const iovec> pieces);
  IoResult Write(std::span<const iovec> pieces);
  IoResult Read(std::span<const iovec> pieces);
  IoResult SendPart(const std::byte* memory, size_t bytes);
  IoResult ReceivePart(std::byte* memory, size_t bytes);
  IoResult TakeBack(Slot* slot, bool receive);
  void Look(Slot* slot);
  IoResult ResultOf(Slot* slot, size_t bytes, uint64_t* count);
  void Await(Slot* slot, int64_t until_ns);
  void Break();
  void EndParts();

  UcxPort& port_;
  const UcxModule& ucx_;
  const Seams seams_;
  const int self_;
  const int number_;
  std::string proof_out_;
  std::string proof_in_;
  uint64_t tag_out_ = 0;
  uint64_t tag_in_ = 0;

  UcxPeer* peer_ = nullptr;
  bool lost_ = false;
  bool bye_heard_ = false;
  bool owes_bye_ = false;
  UcxInbox inbox_;
  uint64_t said_ = 0;
  uint64_t sent_parts_ = 0;
  uint64_t received_parts_ = 0;
  Slot sending_;
  Slot receiving_;
};

}  // namespace weft
