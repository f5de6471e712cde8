// The store's server as a state machine: one thread calls Step() and nothing in it ever waits.
//
//   StoreServer server(SystemSeams(), {.secret = secret});
//   WEFT_RETURN_IF_ERROR(server.AddListener(&endpoint));
//   while (...) {
//     items.clear();
//     server.AppendPollItems(&items);
//     net.Poll(items, server.NextWakeNs());
//     server.Step();
//   }
//
// Strangers cost it little: until a connection has proven that it knows the secret it may be one of
// at most kStrangersMax (the oldest gives way), has 2 s, and is read into a fixed 88 bytes. Refused
// connections are counted and logged once a second. A client is owed one answer at most, and read no
// further until it has taken it.
//
// Thread-safety: owned by one thread. Owns its sockets and closes them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/seams.h"
#include "comm/rendezvous/store_data.h"
#include "comm/rendezvous/store_protocol.h"

namespace weft {

struct StoreServerOptions {
  std::string secret;     // empty: whoever may connect may join
  bool insecure = false;  // allows TCP without a secret
  uint32_t epoch = 1;     // of the membership; frames of another one are refused
  int64_t uid = -1;       // who may use unix listeners; -1: anybody
};

class StoreServer {
 public:
  static constexpr size_t kStrangersMax = 64;
  static constexpr int64_t kHandshakeNs = 2'000'000'000;

  StoreServer(const Seams& seams, StoreServerOptions options);
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;
  ~StoreServer();

  // Listens on `endpoint` too; port 0 is replaced by the one chosen. INVALID_USAGE for TCP without
  // a secret, unless insecure.
  absl::Status AddListener(Endpoint* endpoint);

  // Handles that connections are accepted on.
  std::vector<int> listeners() const;

  void AppendPollItems(std::vector<PollItem>* items) const;
  // When Step() has something to do even if no item becomes ready.
  int64_t NextWakeNs() const;
  // Accepts, reads, answers: whatever is possible now.
  void Step();

  // Whether a client has set the key, for the program that serves; no wait and no connection.
  bool Holds(std::string_view key) const { return data_.Holds(key); }

  // How many proven clients are connected.
  int client_count() const { return client_count_; }

  // Clients that are no ranks say so by numbers below -1. Those whose connections have ended since the last call, in order.
  std::vector<int32_t> TakeGone() { return std::exchange(gone_, {}); }

  // What was read and is not served yet, and answers that were not taken yet: of all clients.
  size_t buffered_bytes() const;

  // Every rank of the world has come and left again: nobody will need this server any more.
  bool Deserted() const;
  // The ranks will come again, for another group.
  void ForgetWorld();

  // Refused connections so far.
  uint64_t refused(Refusal refusal) const { return refused_[static_cast<size_t>(refusal)]; }

 private:
  struct Connection;

  void Accept(int listener);
  void Greet(int handle);
  void MakeRoom();
  void Advance(Connection& connection, bool readable, bool writable);
  void ReadHello(Connection& connection);
  // It has requests that are not served yet, and has taken the answers to those before.
  bool CanGoOn(const Connection& connection) const;
  void ServeFrames(Connection& connection);
  bool Receive(Connection& connection, size_t bytes_max);
  void Judge(Connection& connection);
  void Flush(Connection& connection);
  bool Serve(Connection& connection, const Frame& frame);
  void Send(const StoreData::Answer& answer);
  void Refuse(Connection& connection, Refusal refusal);
  void Count(Refusal refusal, const std::string& address, std::string_view details);
  void LogRefusals();
  void Drop(Connection& connection);
  void SweepDropped();
  void ExpireStrangers();

  const Seams seams_;
  const StoreServerOptions options_;

  struct Listener {
    int handle = -1;
    Endpoint endpoint;
  };

  std::vector<Listener> listeners_;
  std::map<int, std::unique_ptr<Connection>> connections_;  // by handle
  StoreData data_;                                          // its clients are handles
  uint64_t next_id_ = 0;
  int client_count_ = 0;
  int world_size_ = 0;
  std::set<int32_t> came_;
  std::vector<int32_t> gone_;
  int64_t accept_again_ns_ = 0;  // after a lack of descriptors
  bool starved_ = false;         // the last attempt to accept met one, which has been logged
  std::array<uint64_t, kRefusalCount> refused_ = {};
  std::array<uint64_t, kRefusalCount> unlogged_ = {};
  std::string last_refused_;
  int64_t logged_ns_ = INT64_MIN;
};

}  // namespace weft
