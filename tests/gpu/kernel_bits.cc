#include "tests/gpu/kernel_bits.h"

#include <cstring>
#include <map>

#include <fmt/format.h>

#include "base/status.h"
#include "base/text.h"
#include "tests/device/twins.h"

namespace weft::test {
namespace {

constexpr int64_t kCasesPerLine =
    500;  // that a line tells of: those of a program that is killed count up to the last line
constexpr int kWrongShown = 10;

// Memory of one device that has room for the largest arena so far.
class ArenaMemory {
 public:
  explicit ArenaMemory(GpuDevice* device) : device_(device) {}

  absl::StatusOr<char*> Of(size_t bytes) {
    if (bytes > bytes_) {
      if (at_ != nullptr) WEFT_RETURN_IF_ERROR(device_->Free(at_));
      at_ = nullptr;
      WEFT_ASSIGN_OR_RETURN(at_, device_->Allocate(2 * bytes));
      bytes_ = 2 * bytes;
    }
    return at_;
  }

  GpuDevice* device() { return device_; }

 private:
  GpuDevice* device_;
  char* at_ = nullptr;
  size_t bytes_ = 0;
};

// What a kernel makes of a case's arena.
absl::StatusOr<std::vector<char>> RunOnDevice(const KernelCase& one, ArenaMemory& memory) {
  const std::vector<char>& image = one.arena.image();
  WEFT_ASSIGN_OR_RETURN(char* const at, memory.Of(image.size()));
  GpuDevice* const device = memory.device();
  WEFT_RETURN_IF_ERROR(device->CopyAndWait(at, image.data(), image.size()));
  WEFT_RETURN_IF_ERROR(device->Launch(ImageOfKernel(one.kernel), one.kernel, one.parameters(at),
                                      {one.blocks, one.threads, one.shared_bytes}));
  std::vector<char> made(image.size());
  WEFT_RETURN_IF_ERROR(device->CopyAndWait(made.data(), at, made.size()));
  return made;
}

std::vector<char> RunTwin(const KernelCase& one) {
  AlignedBytes memory(one.arena.image());
  const std::vector<char> parameters = one.parameters(memory.at());
  FindTwin(one.kernel)(parameters.data(), {.blocks = 1, .threads = 64});
  return {memory.at(), memory.at() + one.arena.image().size()};
}

// The first byte that differs, with its neighbours.
std::string Difference(const KernelCase& one, const std::vector<char>& made,
                       const std::vector<char>& expected) {
  size_t byte = 0;
  while (made[byte] == expected[byte])
    ++byte;
  const size_t piece = one.arena.PieceOf(byte);
  const std::string where =
      piece < one.arena.piece_count()
          ? StrCat("byte ", one.arena.OffsetIn(piece, byte), " of array ", piece)
          : StrCat("byte ", byte, ", outside the arrays");
  const auto hex = [byte](const std::vector<char>& bytes) {
    std::string text;
    for (size_t i = byte / 8 * 8; i < byte / 8 * 8 + 8 && i < bytes.size(); ++i)
      text += fmt::format("{:02x}", static_cast<unsigned char>(bytes[i]));
    return text;
  };
  return StrCat(one.kernel, ", ", one.what, ", ", one.blocks, " x ", one.threads,
                " threads: ", where, " is in ", hex(made), ", expected ", hex(expected));
}

// How many cases of each check were right since they were last told.
class Tally {
 public:
  explicit Tally(SectionLines* lines) : lines_(lines) {}

  void Right(const std::string& check) {
    if (++right_[check] == kCasesPerLine) Tell();
  }

  void Tell() {
    for (const auto& [check, count] : right_)
      lines_->Cases(check, count, 0);
    right_.clear();
  }

 private:
  SectionLines* lines_;
  std::map<std::string, int64_t> right_;
};

}  // namespace

absl::Status CheckBits(const std::vector<std::unique_ptr<GpuDevice>>& devices, uint32_t seed,
                       const CaseOptions& options, SectionLines& lines) {
  lines.Seed(seed);
  std::vector<ArenaMemory> memories;
  for (const std::unique_ptr<GpuDevice>& device : devices)
    memories.emplace_back(device.get());
  Tally tally(&lines);
  absl::Status status = absl::OkStatus();
  int64_t turn = 0;
  int shown = 0;
  KernelCases cases(seed, options);
  cases.ForEach([&](const KernelCase& one) {
    if (!status.ok()) return;
    absl::StatusOr<std::vector<char>> made =
        RunOnDevice(one, memories[static_cast<size_t>(turn) % memories.size()]);
    if (!made.ok()) {
      status = made.status();
      lines.Wrong(one.check, StrCat(one.kernel, ", ", one.what, ": ", status.message()));
      return;
    }
    if (turn++ == options.plant) made->back() ^= 1;
    const std::vector<char> expected = RunTwin(one);
    if (*made == expected) {
      tally.Right(one.check);
    } else if (shown++ < kWrongShown) {
      lines.Wrong(one.check, Difference(one, *made, expected));
    } else {
      lines.Cases(one.check, 1, 1);
    }
  });
  tally.Tell();
  return status;
}

}  // namespace weft::test
