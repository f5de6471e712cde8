// How the threads of a kernel share its work: each takes every so-many-th packet of elements, and what is in front of the first whole
// packet and behind the last one is taken element by element.
//
//   ForEachPacket<8>(worker, range, [&](uint64_t element) { ...8 elements from `element` on... },
//                    [&](uint64_t element) { ...this one... });
//
// A packet begins where all pointers are aligned to their accesses; host code finds out where that is (comm/device/packet_range.h).
// Thread-safety: values.
#pragma once

#include "comm/device/element/packet.h"

namespace weft::device {

// One thread of a launch; of a twin, one of as many as it likes.
struct Worker {
  uint64_t index;
  uint64_t count;
};

// Elements [first, first + packets x width) are in whole packets, the others of [0, count) are not. Of pointers that are never aligned
// at the same element, none are.
struct PacketRange {
  uint64_t count;
  uint64_t first;
  uint64_t packets;
};

template <int kWidth, typename OnPacket, typename OnElement>
WEFT_INLINE void ForEachPacket(const Worker& worker, const PacketRange& range, OnPacket on_packet,
                               OnElement on_element) {
  for (uint64_t packet = worker.index; packet < range.packets; packet += worker.count)
    on_packet(range.first + packet * kWidth);
  const uint64_t in_packets = range.packets * kWidth;
  for (uint64_t other = worker.index; other < range.count - in_packets; other += worker.count)
    on_element(other < range.first ? other : other + in_packets);
}

// The same for what is worth one body only: on_unit(element, valid, whole), up to kWidth elements, which are a packet or not.
template <int kWidth, typename OnUnit>
WEFT_INLINE void ForEachUnit(const Worker& worker, const PacketRange& range, OnUnit on_unit) {
  const uint64_t behind = range.first + range.packets * kWidth;
  const uint64_t units_before = (range.first + kWidth - 1) / kWidth;
  const uint64_t units_behind = (range.count - behind + kWidth - 1) / kWidth;
  const uint64_t units = units_before + range.packets + units_behind;
  for (uint64_t unit = worker.index; unit < units; unit += worker.count) {
    const bool whole = unit >= units_before && unit < units_before + range.packets;
    uint64_t element = unit * kWidth;
    uint64_t end = range.first;
    if (unit >= units_before) {
      element = range.first + (unit - units_before) * kWidth;
      end = range.count;
    }
    const uint64_t left = end - element;
    on_unit(element, left < kWidth ? static_cast<int>(left) : kWidth, whole);
  }
}

}  // namespace weft::device
