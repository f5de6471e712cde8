// What the ranks of a group show each other while they wait: a few words per rank, in memory that all of them read.
//
//   const int place = board->Take();              // one of this rank's; -1: none is free
//   board->Show(place, notice);
//   ... board->Read(peer, place_of_peer, &notice) ...
//   board->Clear(place);
//   board->GiveBack(place);
//
// The group does not look at what is shown. Who reads the same version twice knows that the notice stood all the time in
// between: what its writer promises in it held at any moment there, if the writer clears it before it does anything else.
//
// Thread-safety: Take and Read from any thread; a place has one writer at a time.
#pragma once

#include <array>
#include <cstdint>

namespace weft {

using WaitNotice = std::array<uint64_t, 47>;

class NoticeBoard {
 public:
  static constexpr int kPlaces = 2;  // of each rank, for Take()
  // Another one: what the rank's process waits in, in whichever group (comm/agent/wait_cycle.h). Nobody takes it.
  static constexpr int kProcessPlace = kPlaces;
  // And these for why it has refused calls (refusal.h), taken in turn.
  static constexpr int kRefusalPlace = kPlaces + 1;
  static constexpr int kRefusalPlaces = 4;
  static constexpr int kAllPlaces = kRefusalPlace + kRefusalPlaces;

  virtual ~NoticeBoard() = default;

  virtual int Take() = 0;
  virtual void GiveBack(int place) = 0;

  virtual void Show(int place, const WaitNotice& notice) = 0;
  virtual void Clear(int place) = 0;

  // What `rank` shows there: its version, which it never shows again, or 0 if there is nothing whole to be read.
  virtual uint64_t Read(int rank, int place, WaitNotice* notice) const = 0;
};

}  // namespace weft
