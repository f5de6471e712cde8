#include "comm/node/segment_notices.h"

namespace weft {

uint64_t ReadNotice(const NoticePlace& place, WaitNotice* notice) {
  const uint64_t version = place.version.load(std::memory_order_seq_cst);
  if (version == 0) return 0;
  for (size_t i = 0; i < notice->size(); ++i)
    (*notice)[i] = place.words[i].load(std::memory_order_acquire);
  return place.version.load(std::memory_order_seq_cst) == version ? version : 0;
}

int SegmentNotices::Take() {
  for (int place = 0; place < kPlaces; ++place) {
    if (!taken_[static_cast<size_t>(place)].exchange(true, std::memory_order_acquire)) return place;
  }
  return -1;
}

void SegmentNotices::GiveBack(int place) {
  Clear(place);
  taken_[static_cast<size_t>(place)].store(false, std::memory_order_release);
}

// The version is sequentially consistent: a notice that was cleared before its writer did something is not read again
// by whoever has seen that.
void SegmentNotices::Show(int place, const WaitNotice& notice) {
  const Visit visit(gate_);
  if (!visit.inside()) return;
  NoticePlace& own = Place(rank_, place);
  own.version.store(0, std::memory_order_seq_cst);
  for (size_t i = 0; i < notice.size(); ++i)
    own.words[i].store(notice[i], std::memory_order_release);
  own.version.store(shown_.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
}

void SegmentNotices::Clear(int place) {
  const Visit visit(gate_);
  if (visit.inside()) Place(rank_, place).version.store(0, std::memory_order_seq_cst);
}

uint64_t SegmentNotices::Read(int rank, int place, WaitNotice* notice) const {
  const Visit visit(gate_);
  return visit.inside() ? ReadNotice(Place(rank, place), notice) : 0;
}

}  // namespace weft
