// The connections of a link: the main one, and those beside it, which come and go.
//
//   LinkConnections on(lasting_id);
//   on.Make(2).stream.Attach(...);
//   on.Each([](LinkConnection& connection) { ... });     // those that there have been
//
// Thread-safety: none; the transport's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/transport/link_connection.h"

namespace weft {

class LinkConnections {
 public:
  explicit LinkConnections(uint64_t lasting_id) : lasting_id_(lasting_id), main_(lasting_id) {}

  LinkConnection& main() { return main_; }

  const LinkConnection& main() const { return main_; }

  bool IsMain(const LinkConnection& connection) const { return &connection == &main_; }

  // There is, or was, one beside the main one.
  bool several() const { return !beside_.empty(); }

  // 0: the main one. nullptr: there has been none of this number.
  const LinkConnection* Find(int number) const {
    const auto index = static_cast<size_t>(number);
    if (number == 0) return &main_;
    return index <= beside_.size() ? beside_[index - 1].get() : nullptr;
  }

  LinkConnection& Make(int number) {
    if (number == 0) return main_;
    const auto index = static_cast<size_t>(number);
    if (beside_.size() < index) beside_.resize(index);
    std::unique_ptr<LinkConnection>& made = beside_[index - 1];
    if (made == nullptr) made = std::make_unique<LinkConnection>(lasting_id_);
    return *made;
  }

  template <typename Use>
  void Each(const Use& use) {
    use(main_);
    EachBeside(use);
  }

  template <typename Use>
  void EachBeside(const Use& use) {
    for (const auto& connection : beside_)
      if (connection != nullptr) use(*connection);
  }

  template <typename Holds>
  bool All(const Holds& holds) const {
    bool all = holds(main_);
    for (const auto& connection : beside_)
      all = all && (connection == nullptr || holds(*connection));
    return all;
  }

  // Parts go beside the main one.
  bool Share() const {
    return several() && !All([this](const LinkConnection& connection) {
             return IsMain(connection) || !connection.stream.settled();
           });
  }

 private:
  const uint64_t lasting_id_;
  LinkConnection main_;
  std::vector<std::unique_ptr<LinkConnection>> beside_;  // numbers 1, 2, ...; nullptr: not yet
};

}  // namespace weft
