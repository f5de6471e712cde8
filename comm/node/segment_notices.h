// The notices of a node group (comm/group/notice_board.h): they stand in the ranks' control blocks.
//
// A notice is of use to nobody once the group is closed: then nothing is shown or read.
// Thread-safety: as NoticeBoard.
#pragma once

#include <array>
#include <atomic>

#include "comm/group/notice_board.h"
#include "comm/node/gate.h"
#include "comm/node/segment.h"

namespace weft {

// Its version, or 0 if there is nothing whole to be read.
uint64_t ReadNotice(const NoticePlace& place, WaitNotice* notice);

class SegmentNotices : public NoticeBoard {
 public:
  // `gate` is the group's, and outlives the board.
  SegmentNotices(const Segment& segment, int rank, Gate& gate)
      : segment_(segment), rank_(rank), gate_(gate) {}

  int Take() override;
  void GiveBack(int place) override;
  void Show(int place, const WaitNotice& notice) override;
  void Clear(int place) override;
  uint64_t Read(int rank, int place, WaitNotice* notice) const override;

 private:
  NoticePlace& Place(int rank, int place) const { return segment_.control(rank).notices[place]; }

  const Segment segment_;
  const int rank_;
  Gate& gate_;
  std::array<std::atomic<bool>, kPlaces> taken_{};
  std::atomic<uint64_t> shown_{0};  // versions of all places
};

}  // namespace weft
