// Which ranks have not come, asked one by one.
//
//   RollCall call(rank, size);
//   while (!call.done()) call.Take(is_there(call.next()));
//   if (!call.missing().empty()) StrCat("ranks ", ListText(call.missing()), " have not come")
//
// Thread-safety: a value.
#pragma once

#include <string>
#include <vector>

namespace weft {

class RollCall {
 public:
  // With so many missing ranks it is done.
  static constexpr size_t kMissingMax = 64;

  // `self` need not be asked.
  RollCall(int self, int size) : self_(self), size_(size), next_(self == 0 ? 1 : 0) {}

  bool done() const { return next_ >= size_ || missing_.size() >= kMissingMax; }

  int next() const { return next_; }

  void Take(bool there) {
    if (!there) missing_.push_back(next_);
    if (++next_ == self_) ++next_;
  }

  const std::vector<int>& missing() const { return missing_; }

  // There may be more than missing(): not all were asked.
  bool more() const { return next_ < size_; }

 private:
  int self_;
  int size_;
  int next_;
  std::vector<int> missing_;
};

// "2, 3, 7 and 5 more"
std::string ListText(const std::vector<int>& ranks);

// "rank 3", "ranks 2, 3, 7 and 5 more"
std::string RanksText(const std::vector<int>& ranks);

}  // namespace weft
