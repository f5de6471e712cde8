// What two processes may share of a device, tried for real: device memory by descriptor and by CUDA's handles, a memfd that both register,
// words in it that streams write and wait for. Each is right, wrong, or skipped with what the driver said.
//
//   MachineSegment segment(kSegmentBytes);
//   PeerProcess peer(PeerOf(segment));                 // before the driver is opened
//   TrySharing(*device, segment, peer, lines);
#pragma once

#include "tests/gpu/gpu_device.h"
#include "tests/gpu/machine_segment.h"
#include "tests/gpu/peer_process.h"
#include "tests/gpu/section_lines.h"

namespace weft::test {

constexpr size_t kSegmentBytes = 4 << 20;

// The other process's part.
PeerProcess::Serve PeerOf(const MachineSegment& segment);

void TrySharing(GpuDevice& device, const MachineSegment& segment, PeerProcess& peer,
                SectionLines& lines);

}  // namespace weft::test
