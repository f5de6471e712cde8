// The keys and values of a store and who waits for them; knows frames, but no sockets.
//
//   std::vector<StoreData::Answer> answers;
//   if (!data.Serve(client, frame, &answers)) ... the frame is malformed: drop the client
//
// Thread-safety: owned by one thread. Bounded: kBytesMax of keys and values; one kWait per client.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "weft/types.h"

#include "comm/rendezvous/store_protocol.h"

namespace weft {

class StoreData {
 public:
  static constexpr size_t kBytesMax = size_t{1} << 28;

  struct Answer {
    int client = -1;
    Frame frame;
  };

  // Serves one frame of `client`; appends answers, also to others that were waiting. False if the
  // frame is not a request or malformed.
  bool Serve(int client, const Frame& frame, std::vector<Answer>* answers);

  // Whether it has a value now.
  bool Holds(std::string_view key) const { return values_.find(key) != values_.end(); }

  // The client is gone.
  void Forget(int client);

 private:
  struct Waiter {
    std::string key;
    uint64_t request = 0;
  };

  bool Set(int client, const Frame& frame, std::vector<Answer>* answers);
  bool Wait(int client, const Frame& frame, std::vector<Answer>* answers);
  bool Add(int client, const Frame& frame, std::vector<Answer>* answers);
  bool Remove(int client, const Frame& frame, std::vector<Answer>* answers);
  // Stores and wakes the waiters; false if there is no room.
  bool Keep(std::string_view key, std::string value, std::vector<Answer>* answers);

  std::map<std::string, std::string, std::less<>> values_;
  size_t bytes_ = 0;
  std::map<std::string, std::set<int>, std::less<>> waiting_;  // key -> clients
  std::map<int, Waiter> waiters_;                              // client -> what for
};

}  // namespace weft
