// Messages that have come, or are coming, ahead of their receives, and the room that the other side has for such.
//
//   if (!early.HasRoomFor(bytes)) ...                            // it has broken the protocol
//   std::byte* const memory = early.Begin(key, said);            // nullptr: it is there already
//   early.Complete(key);
//   if (const SaidMessage* said = early.Find(key)) early.Take(key, &receive);
//   if (early.owed() > ...) said room = early.TakeOwed();        // that was taken and is free again
//
// Thread-safety: none; the transport's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "comm/transport/link_frame.h"
#include "comm/transport/message_key.h"
#include "comm/transport/said_message.h"
#include "comm/transport/transfer.h"

namespace weft {

class EarlyMessages {
 public:
  bool HasRoomFor(size_t bytes) const { return room_ + RoomOf(bytes) <= kRoomBytes; }

  // Something that came ahead takes its room, wherever it goes.
  void Count(size_t bytes) { room_ += RoomOf(bytes); }

  void GiveBack(size_t bytes) {
    room_ -= RoomOf(bytes);
    owed_ += RoomOf(bytes);
  }

  // What the other side does not know to be free again.
  size_t owed() const { return owed_; }

  size_t TakeOwed() { return std::exchange(owed_, 0); }

  // Where it is to go, while it is not erased; nullptr if there is one already.
  std::byte* Begin(const MessageKey& key, const SaidMessage& said) {
    const auto [at, added] = messages_.try_emplace(key);
    if (!added) return nullptr;
    at->second.said = said;
    at->second.bytes.resize(said.bytes);
    return reinterpret_cast<std::byte*>(at->second.bytes.data());
  }

  void Complete(const MessageKey& key) { messages_.find(key)->second.complete = true; }

  bool HasComplete(const MessageKey& key) const {
    const auto found = messages_.find(key);
    return found != messages_.end() && found->second.complete;
  }

  // One that is complete ends the receive, which is in no list any more, and gives its room back.
  void Take(const MessageKey& key, Transfer* receive) {
    const auto found = messages_.find(key);
    const std::string& bytes = found->second.bytes;
    const SaidMessage said = found->second.said;
    if (said.Agrees(*receive)) {
      if (!bytes.empty()) std::memcpy(receive->memory, bytes.data(), bytes.size());
      receive->moved = receive->bytes;
      receive->SetState(TransferState::kDone);
    } else {
      said.Refuse(receive);
    }
    GiveBack(bytes.size());
    messages_.erase(found);
  }

  // The first one of the stream.
  std::optional<OfferedMessage> FirstIn(const StreamId& stream, bool* complete) const {
    const auto found = messages_.lower_bound({stream, 0});
    if (found == messages_.end() || found->first.first != stream) return std::nullopt;
    *complete = found->second.complete;
    return OfferOf(found->first, found->second.said);
  }

  const SaidMessage* SaidByAnother(const Transfer& transfer) const {
    return weft::SaidByAnother(messages_, transfer);
  }

  // The one that is still coming gives its room back when it has come.
  void EraseGroup(uint64_t group_id) {
    for (const auto& [key, early] : messages_)
      if (key.first.group_id == group_id && early.complete) GiveBack(early.bytes.size());
    weft::EraseGroup(&messages_, group_id);
  }

 private:
  struct Early {
    SaidMessage said;
    bool complete = false;
    std::string bytes;

    friend const SaidMessage& SaidIn(const Early& early) { return early.said; }
  };

  std::map<MessageKey, Early> messages_;
  size_t room_ = 0;  // that they take
  size_t owed_ = 0;
};

}  // namespace weft
