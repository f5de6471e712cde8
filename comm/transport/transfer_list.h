// Transfers in the order in which they were posted, linked by their own pointers: nothing is allocated. Short: those of the
// operations under way with one peer.
//
// Thread-safety: the owner's.
#pragma once

#include "comm/transport/transfer.h"

namespace weft {

class TransferList {
 public:
  bool empty() const { return first_ == nullptr; }

  Transfer* first() const { return first_; }

  void Append(Transfer* transfer) {
    transfer->next = nullptr;
    Transfer** end = &first_;
    while (*end != nullptr)
      end = &(*end)->next;
    *end = transfer;
  }

  void Remove(const Transfer* transfer) {
    Transfer** at = &first_;
    while (*at != nullptr && *at != transfer)
      at = &(*at)->next;
    if (*at != nullptr) *at = transfer->next;
  }

  Transfer* Find(const StreamId& stream, uint64_t tag) const {
    Transfer* found = first_;
    while (found != nullptr && (found->stream != stream || found->tag != tag))
      found = found->next;
    return found;
  }

  // The first one that `fits`; nullptr: none does.
  template <typename Fits>
  Transfer* FindIf(const Fits& fits) const {
    Transfer* found = first_;
    while (found != nullptr && !fits(*found))
      found = found->next;
    return found;
  }

 private:
  Transfer* first_ = nullptr;
};

}  // namespace weft
