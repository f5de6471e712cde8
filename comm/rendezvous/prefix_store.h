// A part of a store: the same keys, behind a prefix.
//
//   PrefixStore meeting(store, "weft/join/world/5/");
//   ExchangeMembership(meeting, ...)
//
// Thread-safety: the store's, which outlives the object.
#pragma once

#include <string>
#include <utility>

#include "comm/rendezvous/store.h"

namespace weft {

class PrefixStore : public Store {
 public:
  PrefixStore(Store& store, std::string prefix) : store_(store), prefix_(std::move(prefix)) {}

  StoreReply Ask(StoreRequest request) override {
    request.key = prefix_ + request.key;
    return store_.Ask(std::move(request));
  }

  std::string Where() const override { return store_.Where(); }

 private:
  Store& store_;
  const std::string prefix_;
};

}  // namespace weft
