// What a peer has said, in the order in which it was said: UCX promises none.
//
//   inbox.Take(number, bytes);                 // numbers from 0 on
//   const size_t got = inbox.Read(pieces);     // as from a stream
//
// Thread-safety: the owner's. Bounded: what is more than kBytesMax breaks it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include <sys/uio.h>

namespace weft {

class UcxInbox {
 public:
  // Far more than a peer has to say of what is under way, as data waits for room or a grant.
  static constexpr size_t kBytesMax = 32 << 20;

  void Take(uint64_t number, std::string_view bytes) {
    if (broken_ || number < next_ || held_bytes() + bytes.size() > kBytesMax) {
      broken_ = true;
      return;
    }
    if (number != next_) {
      early_bytes_ += bytes.size();
      if (!early_.try_emplace(number, bytes).second) broken_ = true;
      return;
    }
    Append(bytes);
    for (auto at = early_.find(next_); at != early_.end(); at = early_.find(next_)) {
      early_bytes_ -= at->second.size();
      Append(at->second);
      early_.erase(at);
    }
  }

  // The peer says no more after its message of that number.
  void End(uint64_t number) {
    Take(number, {});
    end_ = number + 1;
  }

  size_t Read(std::span<const iovec> pieces) {
    size_t bytes = 0;
    for (const iovec& piece : pieces) {
      const size_t taken = std::min(piece.iov_len, ready_.size() - begin_);
      if (taken > 0) std::memcpy(piece.iov_base, ready_.data() + begin_, taken);
      begin_ += taken;
      bytes += taken;
    }
    if (begin_ == ready_.size()) {
      ready_.clear();
      begin_ = 0;
    }
    return bytes;
  }

  bool empty() const { return begin_ == ready_.size(); }

  // All that the peer had to say has come.
  bool ended() const { return end_ != 0 && next_ == end_; }

  // It has said what a rank does not say.
  bool broken() const { return broken_; }

 private:
  size_t held_bytes() const { return ready_.size() - begin_ + early_bytes_; }

  void Append(std::string_view bytes) {
    // What has been read is let go before it is much.
    if (begin_ > ready_.size() / 2) {
      ready_.erase(0, begin_);
      begin_ = 0;
    }
    ready_.append(bytes);
    ++next_;
  }

  uint64_t next_ = 0;
  uint64_t end_ = 0;
  bool broken_ = false;
  std::string ready_;
  size_t begin_ = 0;
  std::map<uint64_t, std::string> early_;
  size_t early_bytes_ = 0;
};

}  // namespace weft
