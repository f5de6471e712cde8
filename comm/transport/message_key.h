// What tells a message from all others between two ranks, in one direction: its stream and its tag.
//
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "comm/transport/link_frame.h"
#include "comm/transport/said_message.h"
#include "comm/transport/transfer.h"

namespace weft {

using MessageKey = std::pair<StreamId, uint64_t>;

inline MessageKey KeyOfFrame(const LinkFrame& frame) {
  return {StreamId{frame.group_id, frame.sequence}, frame.tag};
}

inline SaidMessage SaidBy(const LinkFrame& frame) {
  return {frame.signature, frame.message_bytes, frame.record};
}

inline OfferedMessage OfferOf(const MessageKey& key, const SaidMessage& said) {
  return {.tag = key.second, .signature = said.signature, .bytes = said.bytes};
}

inline const SaidMessage& SaidIn(const SaidMessage& said) {
  return said;
}

// What was said, in a map by key, in the transfer's stream by another call than its own; nullptr: nothing.
template <typename Map>
const SaidMessage* SaidByAnother(const Map& map, const Transfer& transfer) {
  for (auto at = map.lower_bound({transfer.stream, 0});
       at != map.end() && at->first.first == transfer.stream; ++at) {
    const SaidMessage& said = SaidIn(at->second);
    if (said.of_call() && said.signature != transfer.signature) return &said;
  }
  return nullptr;
}

template <typename Map>
void EraseGroup(Map* map, uint64_t group_id) {
  std::erase_if(*map, [&](const auto& entry) { return entry.first.first.group_id == group_id; });
}

}  // namespace weft
