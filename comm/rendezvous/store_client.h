// The store's client as a state machine: connects, proves itself, then asks one thing at a time.
//
//   StoreClient client(SystemSeams(), options);
//   client.Start(request);
//   while (!client.done()) { poll client.AppendPollItems() until client.NextWakeNs(); client.Step(); }
//   StoreReply reply = client.TakeReply();
//
// It keeps trying to connect until the deadline, because the server may come later than its clients;
// a server that speaks another version or another secret ends that at once, and so does one that
// was there before its clients and listens at none of its addresses any more. A connection lost
// after the handshake is final: the server died with what it knew.
//
// Thread-safety: owned by one thread; nothing waits. Owns its socket.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/seams.h"
#include "comm/rendezvous/store_protocol.h"

namespace weft {

struct StoreClientOptions {
  std::vector<Endpoint> endpoints;  // tried in turn; numeric hosts
  std::string secret;
  int32_t rank = -1;
  int32_t size = 0;
  uint32_t epoch = 1;
  int64_t connect_deadline_ns = 0;
  std::string host_hint;  // who should be serving: "rank 0", "weftrun"; for messages
  // The server was there before its clients: what it means that it is not; "": it may still come.
  std::string gone_hint;
  std::string address_hint;  // how the endpoints were chosen: "MASTER_ADDR=node1"; for messages
  int64_t server_uid = -1;    // whose server to trust on unix sockets; -1: anybody's
  int64_t unanswered_ns = 0;  // Net::EndUnanswered() of its connections; 0: never
};

class StoreClient {
 public:
  // An attempt to connect and shake hands may take this long.
  static constexpr int64_t kAttemptNs = 2'500'000'000;
  // A request whose deadline has passed is still given this long for its answer.
  static constexpr int64_t kGraceNs = 1'000'000'000;

  StoreClient(const Seams& seams, StoreClientOptions options);
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;
  // Says goodbye if it can do so without waiting.
  ~StoreClient();

  // Begins a request; the one before it is done.
  void Start(StoreRequest request);

  bool done() const { return reply_.has_value(); }

  StoreReply TakeReply();

  void AppendPollItems(std::vector<PollItem>* items) const;
  int64_t NextWakeNs() const;
  void Step();

  bool connected() const { return state_ == State::kReady; }

  // "the store at tcp:10.0.0.1:29500 of rank 0".
  std::string Where() const;

  // While it is not connected: the store, what calling it was answered, and what to check.
  //   the store at tcp:10.0.0.1:29500 of rank 0: Connection refused 14 times; check that rank 0 was started and can be reached from here
  std::string Unreached() const;

  // Ok until the client is of no use any more.
  const absl::Status& failure() const { return failure_; }

 private:
  enum class State { kPause, kConnecting, kHello, kVerdict, kReady, kFailed };

  void Connect();
  void Retry(std::string answer, bool nobody_listens = false);
  std::string Answers() const;
  void Fail(absl::Status status);
  void CheckDeadlines();
  bool Advance();
  bool Receive(size_t bytes_max);
  void ReadHello();
  void ReadVerdict();
  void ReadFrames();
  void Flush();
  void SendRequest();
  void TakeFrame(const Frame& frame);
  void Finish(StoreReply reply);
  void CloseStream();

  size_t endpoint_index() const { return attempt_ % options_.endpoints.size(); }

  const Endpoint& endpoint() const { return options_.endpoints[endpoint_index()]; }

  absl::Status Refused(const Verdict& verdict) const;
  std::string Host() const;

  const Seams seams_;
  const StoreClientOptions options_;
  State state_ = State::kPause;
  size_t attempt_ = 0;
  size_t refusals_ = 0;  // of the last attempts in a row
  int64_t pause_until_ns_ = 0;
  int64_t pause_ns_;
  int64_t attempt_deadline_ns_ = 0;

  // What attempts were answered, each once, and how often.
  struct Answer {
    size_t endpoint = 0;  // which of options_.endpoints
    std::string text;
    int count = 0;
  };

  std::vector<Answer> answers_;
  absl::Status failure_;  // final
  int stream_ = -1;
  std::string in_;
  std::string out_;
  std::string server_hello_;
  SessionKeys keys_;
  std::optional<FrameOpener> opener_;
  std::optional<FrameSealer> sealer_;
  uint64_t request_number_ = 0;
  std::optional<StoreRequest> request_;
  int64_t answer_deadline_ns_ = 0;
  bool sent_ = false;
  std::optional<StoreReply> reply_;
};

}  // namespace weft
