#include "tests/gpu/machine_sharing.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "base/status.h"
#include "base/text.h"
#include "tests/gpu/pinned_block.h"

namespace weft::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kSharedBytes = 2 << 20;
constexpr auto kStreamSeconds = std::chrono::seconds(8);
constexpr uint32_t kRounds = 100;  // of a ping-pong
constexpr int kRepeats = 5;
constexpr uint32_t kReleased = 1u << 30;  // a word's value that no wait is behind

// Words of the segment.
enum : size_t { kPing, kPong };

std::vector<char> Pattern(size_t bytes, unsigned seed) {
  std::vector<char> pattern(bytes);
  for (size_t i = 0; i < bytes; ++i)
    pattern[i] = static_cast<char>(i * 7 + i / 251 + seed);
  return pattern;
}

cuda::DevicePointer PointerOf(const void* memory) {
  return reinterpret_cast<cuda::DevicePointer>(memory);
}

char* AddressOf(cuda::DevicePointer memory) {
  return reinterpret_cast<char*>(memory);
}

// "", or how it is not the pattern of `seed`: an answer says what is wrong, if anything is.
absl::StatusOr<std::string> HasPattern(GpuDevice& device, const char* memory, unsigned seed) {
  std::vector<char> found(kSharedBytes);
  WEFT_RETURN_IF_ERROR(device.CopyAndWait(found.data(), memory, found.size()));
  const std::vector<char> pattern = Pattern(kSharedBytes, seed);
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] != pattern[i])
      return StrCat("byte ", i, " is ", static_cast<int>(found[i]), ", not ",
                    static_cast<int>(pattern[i]));
  }
  return std::string();
}

absl::Status WritePattern(GpuDevice& device, char* memory, unsigned seed) {
  const std::vector<char> pattern = Pattern(kSharedBytes, seed);
  return device.CopyAndWait(memory, pattern.data(), pattern.size());
}

// ---- device memory by descriptor ----

// A block of virtual memory, mapped.
class MappedBlock {
 public:
  explicit MappedBlock(const Device& device) : device_(&device) {}

  ~MappedBlock() {
    const absl::StatusOr<ContextScope> scope = ContextScope::Enter(*device_);
    if (!scope.ok()) return;
    const Driver& driver = *device_->driver;
    if (mapped_) driver.MemUnmap(at_, bytes_);
    if (at_ != 0) driver.MemAddressFree(at_, bytes_);
    if (handle_ != 0) driver.MemRelease(handle_);
  }

  MappedBlock(const MappedBlock&) = delete;
  MappedBlock& operator=(const MappedBlock&) = delete;

  absl::Status Create() {
    WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(*device_));
    WEFT_RETURN_IF_ERROR(FindSize());
    const cuda::AllocationProperties properties = Properties();
    WEFT_RETURN_IF_ERROR(device_->Check(
        device_->driver->MemCreate(&handle_, bytes_, &properties, 0), "cuMemCreate"));
    return Map();
  }

  absl::Status Import(int fd) {
    WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(*device_));
    WEFT_RETURN_IF_ERROR(FindSize());
    WEFT_RETURN_IF_ERROR(
        device_->Check(device_->driver->MemImportFromShareableHandle(
                           &handle_, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                           cuda::kPosixFileDescriptor),
                       "cuMemImportFromShareableHandle"));
    return Map();
  }

  // The caller closes it.
  absl::StatusOr<int> Export() const {
    WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(*device_));
    int fd = -1;
    WEFT_RETURN_IF_ERROR(device_->Check(
        device_->driver->MemExportToShareableHandle(&fd, handle_, cuda::kPosixFileDescriptor, 0),
        "cuMemExportToShareableHandle"));
    return fd;
  }

  char* at() const { return AddressOf(at_); }

 private:
  cuda::MemoryLocation Location() const { return {cuda::kLocationDevice, device_->facts.ordinal}; }

  cuda::AllocationProperties Properties() const {
    cuda::AllocationProperties properties = {};
    properties.type = cuda::kAllocationPinned;
    properties.requested_handle_types = cuda::kPosixFileDescriptor;
    properties.location = Location();
    return properties;
  }

  absl::Status FindSize() {
    const cuda::AllocationProperties properties = Properties();
    size_t unit = 0;
    WEFT_RETURN_IF_ERROR(device_->Check(
        device_->driver->MemGetAllocationGranularity(&unit, &properties, cuda::kGranularityMinimum),
        "cuMemGetAllocationGranularity"));
    bytes_ = (kSharedBytes + unit - 1) / unit * unit;
    return absl::OkStatus();
  }

  absl::Status Map() {
    const Driver& driver = *device_->driver;
    WEFT_RETURN_IF_ERROR(device_->Check(driver.MemAddressReserve(&at_, bytes_, 0, 0, 0),
                                        "cuMemAddressReserve of ", bytes_, " bytes"));
    WEFT_RETURN_IF_ERROR(device_->Check(driver.MemMap(at_, bytes_, 0, handle_, 0), "cuMemMap"));
    mapped_ = true;
    const cuda::AccessDescription access = {Location(), cuda::kAccessReadWrite};
    return device_->Check(driver.MemSetAccess(at_, bytes_, &access, 1), "cuMemSetAccess");
  }

  const Device* device_;
  size_t bytes_ = 0;
  cuda::AllocationHandle handle_ = 0;
  cuda::DevicePointer at_ = 0;
  bool mapped_ = false;
};

// The other process finds pattern 1 and writes pattern 2.
absl::StatusOr<std::string> AnswerInMemory(GpuDevice& device, char* memory) {
  WEFT_ASSIGN_OR_RETURN(const std::string said, HasPattern(device, memory, 1));
  if (!said.empty()) return StrCat("the other process: ", said);
  WEFT_RETURN_IF_ERROR(WritePattern(device, memory, 2));
  return std::string();
}

absl::StatusOr<std::string> TryDescriptor(GpuDevice& device, PeerProcess& peer) {
  MappedBlock block(device.device());
  WEFT_RETURN_IF_ERROR(block.Create());
  WEFT_RETURN_IF_ERROR(WritePattern(device, block.at(), 1));
  WEFT_ASSIGN_OR_RETURN(const int fd, block.Export());
  absl::StatusOr<std::string> said =
      peer.Ask(StrCat("descriptor ", device.device().facts.ordinal), fd);
  close(fd);
  if (!said.ok() || !said->empty()) return said;
  return HasPattern(device, block.at(), 2);
}

absl::StatusOr<std::string> ServeDescriptor(GpuDevice& device, int fd) {
  MappedBlock block(device.device());
  WEFT_RETURN_IF_ERROR(block.Import(fd));
  return AnswerInMemory(device, block.at());
}

// ---- device memory by CUDA's handles ----

absl::StatusOr<std::string> TryIpc(GpuDevice& device, PeerProcess& peer) {
  WEFT_ASSIGN_OR_RETURN(char* const memory, device.Allocate(kSharedBytes));
  WEFT_RETURN_IF_ERROR(WritePattern(device, memory, 1));
  cuda::IpcMemoryHandle handle = {};
  {
    WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(device.device()));
    WEFT_RETURN_IF_ERROR(device.device().Check(
        device.device().driver->IpcGetMemHandle(&handle, PointerOf(memory)), "cuIpcGetMemHandle"));
  }
  const std::string request = StrCat("ipc ", device.device().facts.ordinal, " ") +
                              std::string(handle.bytes, sizeof(handle.bytes));
  WEFT_ASSIGN_OR_RETURN(const std::string said, peer.Ask(request));
  if (!said.empty()) return said;
  WEFT_ASSIGN_OR_RETURN(const std::string found, HasPattern(device, memory, 2));
  WEFT_RETURN_IF_ERROR(device.Free(memory));
  return found;
}

absl::StatusOr<std::string> ServeIpc(GpuDevice& device, const std::string& bytes) {
  cuda::IpcMemoryHandle handle = {};
  std::memcpy(handle.bytes, bytes.data(), std::min(bytes.size(), sizeof(handle.bytes)));
  const Device& of = device.device();
  WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(of));
  cuda::DevicePointer memory = 0;
  WEFT_RETURN_IF_ERROR(
      of.Check(of.driver->IpcOpenMemHandle(&memory, handle, cuda::kIpcLazyEnablePeerAccess),
               "cuIpcOpenMemHandle"));
  const absl::StatusOr<std::string> said = AnswerInMemory(device, AddressOf(memory));
  WEFT_RETURN_IF_ERROR(of.Check(of.driver->IpcCloseMemHandle(memory), "cuIpcCloseMemHandle"));
  return said;
}

// ---- memory of the node ----

// The segment as a device sees it, for the life of this.
class RegisteredSegment {
 public:
  static absl::StatusOr<std::unique_ptr<RegisteredSegment>> Register(
      const Device& device, const MachineSegment& segment) {
    if (segment.at() == nullptr)
      return MakeError(WEFT_SYSTEM_ERROR, "the system gave no memfd to register");
    WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(device));
    WEFT_RETURN_IF_ERROR(device.Check(
        device.driver->MemHostRegister(segment.at(), segment.bytes(),
                                       cuda::kHostRegisterPortable | cuda::kHostRegisterDeviceMap),
        "cuMemHostRegister of a memfd of ", segment.bytes(), " bytes"));
    std::unique_ptr<RegisteredSegment> made(new RegisteredSegment(device, segment));
    WEFT_RETURN_IF_ERROR(
        device.Check(device.driver->MemHostGetDevicePointer(&made->on_device_, segment.at(), 0),
                     "cuMemHostGetDevicePointer"));
    return made;
  }

  ~RegisteredSegment() {
    const absl::StatusOr<ContextScope> scope = ContextScope::Enter(*device_);
    if (scope.ok()) device_->driver->MemHostUnregister(segment_->at());
  }

  RegisteredSegment(const RegisteredSegment&) = delete;
  RegisteredSegment& operator=(const RegisteredSegment&) = delete;

  cuda::DevicePointer Word(size_t i) const {
    return on_device_ +
           static_cast<uint64_t>(reinterpret_cast<char*>(segment_->Address(i)) - segment_->at());
  }

 private:
  RegisteredSegment(const Device& device, const MachineSegment& segment)
      : device_(&device), segment_(&segment) {}

  const Device* device_;
  const MachineSegment* segment_;
  cuda::DevicePointer on_device_ = 0;
};

// The other process sees what a device copied there, and its device copies something else there.
absl::StatusOr<std::string> TrySegment(GpuDevice& device, const MachineSegment& segment,
                                       PeerProcess& peer) {
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<RegisteredSegment> registered,
                        RegisteredSegment::Register(device.device(), segment));
  WEFT_ASSIGN_OR_RETURN(char* const memory, device.Allocate(kSharedBytes));
  WEFT_RETURN_IF_ERROR(WritePattern(device, memory, 1));
  WEFT_RETURN_IF_ERROR(device.CopyAndWait(segment.at(), memory, kSharedBytes));
  WEFT_ASSIGN_OR_RETURN(const std::string said,
                        peer.Ask(StrCat("segment ", device.device().facts.ordinal)));
  if (!said.empty()) return said;
  WEFT_RETURN_IF_ERROR(device.CopyAndWait(memory, segment.at(), kSharedBytes));
  WEFT_ASSIGN_OR_RETURN(const std::string found, HasPattern(device, memory, 2));
  WEFT_RETURN_IF_ERROR(device.Free(memory));
  return found;
}

absl::StatusOr<std::string> ServeSegment(GpuDevice& device, const MachineSegment& segment) {
  if (std::memcmp(segment.at(), Pattern(kSharedBytes, 1).data(), kSharedBytes) != 0)
    return std::string("the other process does not see what the device copied into the memfd");
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<RegisteredSegment> registered,
                        RegisteredSegment::Register(device.device(), segment));
  WEFT_ASSIGN_OR_RETURN(char* const memory, device.Allocate(kSharedBytes));
  WEFT_RETURN_IF_ERROR(WritePattern(device, memory, 2));
  WEFT_RETURN_IF_ERROR(device.CopyAndWait(segment.at(), memory, kSharedBytes));
  WEFT_RETURN_IF_ERROR(device.Free(memory));
  return std::string();
}

// ---- words that streams write and wait for ----

// Whether all that is enqueued has ended in time.
absl::StatusOr<bool> Ends(GpuDevice& device) {
  const Device& of = device.device();
  const Clock::time_point deadline = Clock::now() + kStreamSeconds;
  do {
    const cuda::Result result = of.driver->StreamQuery(device.stream());
    if (result == cuda::kSuccess) return true;
    if (result != cuda::kNotReady) return of.Check(result, "cuStreamQuery");
    std::this_thread::yield();
  } while (Clock::now() < deadline);
  return false;
}

absl::Status Wait(GpuDevice& device, cuda::DevicePointer word, uint32_t value) {
  return device.device().Check(device.device().driver->StreamWaitValue32(
                                   device.stream(), word, value, cuda::kWaitGreaterOrEqual),
                               "cuStreamWaitValue32");
}

absl::Status Write(GpuDevice& device, cuda::DevicePointer word, uint32_t value) {
  return device.device().Check(
      device.device().driver->StreamWriteValue32(device.stream(), word, value, 0),
      "cuStreamWriteValue32");
}

// A stream waits for a word that the host writes, then writes another one.
absl::StatusOr<std::string> TryWords(GpuDevice& device) {
  const PinnedBlock block(device.device(), 4096);
  WEFT_ASSIGN_OR_RETURN(char* const at, block.at());
  WEFT_ASSIGN_OR_RETURN(const cuda::DevicePointer on_device, block.on_device());
  auto* const words = reinterpret_cast<uint32_t*>(at);
  std::atomic_ref<uint32_t> of_host(words[0]);
  std::atomic_ref<uint32_t> of_stream(words[1]);
  of_host.store(0);
  of_stream.store(0);
  WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(device.device()));
  WEFT_RETURN_IF_ERROR(Wait(device, on_device, 3));
  const absl::Status written = Write(device, on_device + sizeof(uint32_t), 7);
  // Had the stream not waited, it would have written by now more often than not.
  const cuda::Result before = device.device().driver->StreamQuery(device.stream());
  const uint32_t early = of_stream.load();
  of_host.store(3);
  WEFT_ASSIGN_OR_RETURN(const bool ended, Ends(device));
  WEFT_RETURN_IF_ERROR(written);
  if (early != 0 || before == cuda::kSuccess)
    return std::string("the stream did not wait for the word");
  if (!ended) return std::string("the stream did not see the word that the host wrote");
  if (of_stream.load() != 7)
    return std::string("the host does not see the word that the stream wrote");
  return std::string();
}

// All of it is enqueued at once; a turn is two words.
absl::StatusOr<double> PlayPingPong(GpuDevice& device, const MachineSegment& segment,
                                    const RegisteredSegment& registered, bool serves) {
  const size_t mine = serves ? kPong : kPing;
  const size_t theirs = serves ? kPing : kPong;
  WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(device.device()));
  const Clock::time_point begin = Clock::now();
  for (uint32_t round = 1; round <= kRounds; ++round) {
    if (serves) WEFT_RETURN_IF_ERROR(Wait(device, registered.Word(theirs), round));
    WEFT_RETURN_IF_ERROR(Write(device, registered.Word(mine), round));
    if (!serves) WEFT_RETURN_IF_ERROR(Wait(device, registered.Word(theirs), round));
  }
  WEFT_ASSIGN_OR_RETURN(const bool ended, Ends(device));
  const std::chrono::duration<double, std::micro> gone = Clock::now() - begin;
  if (ended) return gone.count() / kRounds;
  // As an abort does: the host writes the words that streams wait for.
  segment.Word(theirs).store(kReleased);
  WEFT_ASSIGN_OR_RETURN(const bool released, Ends(device));
  return MakeError(WEFT_TIMEOUT,
                   StrCat(kRounds,
                          " turns of words between two processes did not end in time; the "
                          "stream was ",
                          released ? "" : "not ", "released by the host"));
}

absl::StatusOr<std::string> TryPingPong(GpuDevice& device, const MachineSegment& segment,
                                        PeerProcess& peer, SectionLines& lines) {
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<RegisteredSegment> registered,
                        RegisteredSegment::Register(device.device(), segment));
  Figure figure = {.name = "ping-pong of two processes, both ways"};
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    segment.Word(kPing).store(0);
    segment.Word(kPong).store(0);
    WEFT_RETURN_IF_ERROR(peer.Send(StrCat("ping-pong ", device.device().facts.ordinal)));
    const absl::StatusOr<double> us = PlayPingPong(device, segment, *registered, false);
    if (!us.ok()) {
      segment.Word(kPing).store(kReleased);
      segment.Word(kPong).store(kReleased);
    }
    absl::StatusOr<std::string> said = peer.Receive();
    if (!us.ok()) return us.status();
    if (!said.ok() || !said->empty()) return said;
    figure.us.push_back(*us);
  }
  lines.Figure(figure);
  return std::string();
}

absl::StatusOr<std::string> ServePingPong(GpuDevice& device, const MachineSegment& segment) {
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<RegisteredSegment> registered,
                        RegisteredSegment::Register(device.device(), segment));
  WEFT_RETURN_IF_ERROR(PlayPingPong(device, segment, *registered, true).status());
  return std::string();
}

void Tell(SectionLines& lines, const std::string& check, const absl::StatusOr<std::string>& said) {
  if (!said.ok()) {
    lines.Skip(check, std::string(said.status().message()));
  } else if (said->empty()) {
    lines.Cases(check, 1, 0);
  } else {
    lines.Wrong(check, *said);
  }
}

absl::StatusOr<std::string> Answer(const MachineSegment& segment, const std::string& request,
                                   int fd) {
  const size_t space = request.find(' ');
  const std::string kind = request.substr(0, space);
  const std::string rest = space == std::string::npos ? "" : request.substr(space + 1);
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<GpuDevice> device,
                        GpuDevice::Open(std::atoi(rest.c_str())));
  if (kind == "descriptor") return ServeDescriptor(*device, fd);
  if (kind == "ipc") return ServeIpc(*device, rest.substr(rest.find(' ') + 1));
  if (kind == "segment") return ServeSegment(*device, segment);
  if (kind == "ping-pong") return ServePingPong(*device, segment);
  return MakeError(WEFT_INTERNAL_ERROR, StrCat("there is no request ", kind));
}

}  // namespace

PeerProcess::Serve PeerOf(const MachineSegment& segment) {
  return [&segment](const std::string& request, int fd) {
    absl::StatusOr<std::string> answer = Answer(segment, request, fd);
    if (fd >= 0) close(fd);
    return answer;
  };
}

void TrySharing(GpuDevice& device, const MachineSegment& segment, PeerProcess& peer,
                SectionLines& lines) {
  Tell(lines, "stream memory operations", TryWords(device));
  Tell(lines, "VMM by descriptor", TryDescriptor(device, peer));
  Tell(lines, "cudaIpc", TryIpc(device, peer));
  Tell(lines, "registered memfd", TrySegment(device, segment, peer));
  Tell(lines, "ping-pong", TryPingPong(device, segment, peer, lines));
}

}  // namespace weft::test
