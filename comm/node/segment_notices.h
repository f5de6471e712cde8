// The notices of a node group (comm/group/notice_board.h): they stand in the ranks' control blocks.
//
// Thread-safety: as NoticeBoard. The segment outlives the board's use.
#pragma once

#include <array>
#include <atomic>

#include "comm/group/notice_board.h"
#include "comm/node/segment.h"

namespace weft {

class SegmentNotices : public NoticeBoard {
 public:
  SegmentNotices(const Segment& segment, int rank) : segment_(segment), rank_(rank) {}

  int Take() override;
  void GiveBack(int place) override;
  void Show(int place, const WaitNotice& notice) override;
  void Clear(int place) override;
  uint64_t Read(int rank, int place, WaitNotice* notice) const override;

 private:
  NoticePlace& Place(int rank, int place) const { return segment_.control(rank).notices[place]; }

  const Segment segment_;
  const int rank_;
  std::array<std::atomic<bool>, kPlaces> taken_{};
  std::atomic<uint64_t> shown_{0};  // versions of all places
};

}  // namespace weft
