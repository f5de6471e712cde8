// The section `machine` of ./dev gpu run: what the devices of a machine are, what two processes may share of one, and what calls of the
// driver cost.
//
//   gpu_machine [--bytes N]       copies of up to N bytes, 2^30 unless said
//
// Prints the lines of section_lines.h. Exit codes: 0 right; 1 wrong, or there is no device.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "base/standard_fds.h"
#include "base/status.h"
#include "base/text.h"
#include "tests/gpu/machine_figures.h"
#include "tests/gpu/machine_sharing.h"

namespace weft::test {
namespace {

void TellFacts(const DeviceFacts& facts, const Driver& driver, SectionLines& lines) {
  const std::string device = StrCat("device ", facts.ordinal, ": ");
  lines.Fact(device + "name", facts.name);
  lines.Fact(device + "bus", facts.bus_id);
  lines.Fact(device + "memory bytes", static_cast<int64_t>(facts.total_bytes));
  lines.Fact(device + "compute capability", StrCat(facts.compute_major, ".", facts.compute_minor));
  using Attribute = cuda::DeviceAttribute;
  const std::pair<const char*, Attribute> attributes[] = {
      {"multiprocessors", Attribute::kMultiprocessorCount},
      {"ECC", Attribute::kEccEnabled},
      {"compute mode", Attribute::kComputeMode},
      {"memory clock, kHz", Attribute::kMemoryClockRate},
      {"memory bus, bits", Attribute::kMemoryBusWidth},
      {"L2 bytes", Attribute::kL2CacheBytes},
      {"unified addressing", Attribute::kUnifiedAddressing},
      {"compute preemption", Attribute::kComputePreemption},
      {"host registration", Attribute::kHostRegister},
      {"host pointers of registered memory", Attribute::kHostPointerForRegisteredMemory},
      {"virtual memory", Attribute::kVirtualMemory},
      {"POSIX descriptors", Attribute::kPosixFileDescriptors},
      {"stream memory operations of 64 bits", Attribute::kStreamMemOps64Bit},
      {"stream waits for NOR", Attribute::kStreamWaitValueNor}};
  for (const auto& [name, attribute] : attributes) {
    int32_t value = 0;
    cuda::DeviceHandle handle = 0;
    if (driver.DeviceGet(&handle, facts.ordinal) != cuda::kSuccess) continue;
    const cuda::Result result = driver.DeviceGetAttribute(&value, attribute, handle);
    if (result == cuda::kSuccess) lines.Fact(device + name, value);
  }
}

// Which devices reach which others' memory; where there are several.
absl::Status TellPeers(const Driver& driver, int32_t count, SectionLines& lines) {
  for (int32_t one = 0; one < count; ++one) {
    std::string reached;
    for (int32_t other = 0; other < count; ++other) {
      if (one == other) continue;
      cuda::DeviceHandle handles[2] = {};
      int32_t can = 0;
      WEFT_RETURN_IF_ERROR(driver.Check(driver.DeviceGet(&handles[0], one), one, "cuDeviceGet"));
      WEFT_RETURN_IF_ERROR(
          driver.Check(driver.DeviceGet(&handles[1], other), other, "cuDeviceGet"));
      WEFT_RETURN_IF_ERROR(driver.Check(driver.DeviceCanAccessPeer(&can, handles[0], handles[1]),
                                        one, "cuDeviceCanAccessPeer"));
      if (can != 0) reached += StrCat(reached.empty() ? "" : " ", other);
    }
    if (count > 1) lines.Fact(StrCat("device ", one, ": reaches devices"), reached);
  }
  return absl::OkStatus();
}

absl::Status Run(uint64_t bytes_max, const MachineSegment& segment, PeerProcess& peer,
                 SectionLines& lines) {
  WEFT_ASSIGN_OR_RETURN(const Driver* const driver, OpenDriver());
  WEFT_ASSIGN_OR_RETURN(const int32_t count, CountDevices());
  for (int32_t ordinal = 0; ordinal < count; ++ordinal) {
    WEFT_ASSIGN_OR_RETURN(const DeviceFacts facts, ReadDeviceFacts(ordinal));
    TellFacts(facts, *driver, lines);
    lines.Cases("attributes", 1, 0);
  }
  WEFT_RETURN_IF_ERROR(TellPeers(*driver, count, lines));
  for (int32_t ordinal = 0; ordinal < count; ++ordinal) {
    WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<GpuDevice> device, GpuDevice::Open(ordinal));
    TrySharing(*device, segment, peer, lines);
    if (ordinal == 0) WEFT_RETURN_IF_ERROR(MeasureMachine(*device, bytes_max, lines));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace weft::test

int main(int argc, char** argv) {
  weft::HoldStandardFds();
  uint64_t bytes_max = uint64_t{1} << 30;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--bytes") == 0) bytes_max = std::strtoull(argv[i + 1], nullptr, 10);
  }
  const weft::test::MachineSegment segment(weft::test::kSegmentBytes);
  weft::test::PeerProcess peer(weft::test::PeerOf(segment));
  weft::test::SectionLines lines(stdout);
  const absl::Status status = weft::test::Run(bytes_max, segment, peer, lines);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() && lines.wrong() == 0 ? 0 : 1;
}
