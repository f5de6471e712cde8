#include "collective_case.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "collective_model.h"
#include "comm/group/call_key.h"
#include "comm/kernels/dtype.h"
#include "comm/node/heap.h"
#include "fmt/format.h"

namespace weft::test {
namespace {

constexpr size_t kMarginBytes = 256;
constexpr char kPattern = 0x5a;

uint64_t Mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  return x ^ x >> 29;
}

// Memory of one kind, filled with the pattern, with margins around.
class Buffer {
 public:
  Buffer(size_t bytes, Memory memory, size_t misalignment_bytes)
      : total_(bytes + 2 * kMarginBytes + misalignment_bytes), memory_(memory) {
    base_ = Take();
    std::memset(base_, kPattern, total_);
    data_ = base_ + kMarginBytes + misalignment_bytes;
    image_.assign(total_, kPattern);
  }

  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  ~Buffer() {
    if (memory_ == Memory::kSymmetric) {
      (void)ProcessHeap().Free(base_);
      return;
    }
    if (memory_ == Memory::kRegistered) {
      EXPECT_TRUE(ProcessHeap().Deregister(base_).ok());
    }
    std::free(base_);
  }

  char* data() { return data_; }

  // Puts bytes into the memory and into what it must be in the end; or only into the latter.
  void Put(size_t at, const char* bytes, size_t count) {
    if (count > 0) std::memcpy(data_ + at, bytes, count);
    Expect(at, bytes, count);
  }

  void Expect(size_t at, const char* bytes, size_t count) {
    if (count > 0) std::memcpy(image_.data() + (data_ - base_) + at, bytes, count);
  }

  // The first byte that is not what it must be, relative to data(); or nothing.
  std::string Difference(const char* what) const {
    const auto at = std::mismatch(image_.begin(), image_.end(), base_);
    if (at.first == image_.end()) return "";
    return fmt::format("byte {} of {} is {:#04x}, not {:#04x}", at.second - data_, what,
                       static_cast<unsigned char>(*at.second),
                       static_cast<unsigned char>(*at.first));
  }

 private:
  char* Take() {
    if (memory_ == Memory::kSymmetric) return static_cast<char*>(*ProcessHeap().Allocate(total_));
    constexpr size_t kPageBytes = 4096;
    total_ = (total_ + kPageBytes - 1) / kPageBytes * kPageBytes;
    auto* const base = static_cast<char*>(std::aligned_alloc(kPageBytes, total_));
    if (memory_ == Memory::kRegistered) {
      EXPECT_TRUE(ProcessHeap().Register(base, total_).ok());
    }
    return base;
  }

  size_t total_;
  Memory memory_;
  char* base_;
  char* data_;
  std::vector<char> image_;
};

// Writes the blocks of a side as `block` makes them, through `put`.
template <typename Block, typename Put>
void WriteSide(const Side& side, size_t element, size_t first, Block&& block, Put&& put) {
  std::vector<char> bytes;
  int current = -1;
  for (const Piece& piece : side.pieces) {
    if (piece.block != current) bytes = block(current = piece.block);
    put((first + piece.at) * element, bytes.data() + piece.begin * element, piece.count * element);
  }
}

// The call's layout, as a caller's arrays.
absl::Status LayOut(const CollectiveModel& model, const Side& in, const Side& out, char* in_data,
                    char* out_data, int rank, int size, Collective* call, BlockLayout* layout) {
  const size_t element = model.element();
  if (model.IsVector()) {
    const size_t nothing = 0;
    const auto blocks = [&](const Side& side) {
      return side.counts.empty() ? Blocks{&nothing, nullptr}
                                 : Blocks{side.counts.data(), side.offsets.data()};
    };
    return LayOutBlocks(blocks(in), blocks(out), rank, size, layout, call);
  }
  std::vector<weft_iov_t> parts;
  const size_t in_blocks = in.pieces.size() / model.part_counts().size();
  const size_t out_blocks = out.pieces.size() / model.part_counts().size();
  for (size_t part = 0; part < model.part_counts().size(); ++part) {
    parts.push_back({in_data + in.pieces[part * in_blocks].at * element,
                     out_data + out.pieces[part * out_blocks].at * element,
                     model.part_counts()[part]});
  }
  return LayOutParts(parts.data(), parts.size(), layout, call);
}

// As the C interface does it.
absl::Status Issue(ProcessGroup& group, const Collective& call, bool asynchronous) {
  absl::Status failure;
  if (!asynchronous && IsPlain(call)) {
    if (group.TryRunCached(KeyOf(call), call.in, call.out, &failure) || !failure.ok())
      return failure;
  }
  absl::Status checked = CheckCollective(call, group.rank(), group.size());
  if (!checked.ok()) return checked;
  if (!asynchronous) return group.Run(call);
  absl::StatusOr<WorkRef> work = group.Start(call);
  return work.ok() ? (*work)->Wait(0) : work.status();
}

// In place for lists of buffers is a matter of each part: here all parts or none.
void ShiftPartsInPlace(const CollectiveModel& model, int rank, Side* in, Side* out) {
  const size_t parts = model.part_counts().size();
  const size_t in_blocks = in->pieces.size() / parts;
  const size_t out_blocks = out->pieces.size() / parts;
  Side& larger = in_blocks > out_blocks ? *in : *out;
  Side& smaller = in_blocks > out_blocks ? *out : *in;
  const size_t blocks = std::max(in_blocks, out_blocks);
  for (size_t part = 0; part < parts; ++part) {
    const size_t own = blocks == 1 ? 0 : static_cast<size_t>(rank);
    smaller.pieces[part].at = larger.pieces[part * blocks + own].at;
  }
  smaller.extent = larger.extent;
}

}  // namespace

std::string CollectiveCase::Name() const {
  return fmt::format("{} {} {} count {} of {} values root {} seed {} {}", OpKindName(kind),
                     DtypeName(dtype), OpName(op), count, element_count, root, seed,
                     ProtocolName(algorithm));
}

LocalChoice LocalChoice::FromSeed(uint64_t seed, int rank) {
  const uint64_t random = Mix(seed * 31 + static_cast<uint64_t>(rank) + 17);
  const auto memory = [](uint64_t bits) {
    return static_cast<Memory>(bits % 3);
  };
  return {.in_place = (random & 1) != 0,
          .asynchronous = (random & 2) != 0,
          .in = memory(random >> 2),
          .out = memory(random >> 5),
          .misalignment_in = random >> 8 & 3,
          .misalignment_out = random >> 10 & 3};
}

struct CaseCall::Buffers {
  bool in_place;
  Buffer first;
  Buffer second;
};

CaseCall::~CaseCall() = default;

CaseCall::CaseCall(int rank, int size, const CollectiveCase& test, const LocalChoice& choice)
    : rank_(rank), test_(test) {
  const CollectiveModel model(test, size);
  const size_t element = model.element();
  Side in = model.In(rank);
  Side out = model.Out(rank);
  const bool in_place = choice.in_place && model.CanBeInPlace(rank);
  if (in_place && model.IsIov()) ShiftPartsInPlace(model, rank, &in, &out);
  const size_t in_first = in_place && !model.IsIov() ? model.InPlaceIn(rank) : 0;
  const size_t out_first = in_place && !model.IsIov() ? model.InPlaceOut(rank) : 0;

  buffers_.reset(
      new Buffers{in_place,
                  {std::max(in_first + in.extent, out_first + out.extent) * element, choice.in,
                   choice.misalignment_in * element},
                  {out.extent * element, choice.out, choice.misalignment_out * element}});
  Buffer& first = buffers_->first;
  Buffer& out_buffer = in_place ? first : buffers_->second;
  WriteSide(
      in, element, in_first, [&](int block) { return model.Input(rank, block); },
      [&](size_t at, const char* bytes, size_t count) { first.Put(at, bytes, count); });
  WriteSide(
      out, element, out_first, [&](int block) { return model.Expected(rank, block); },
      [&](size_t at, const char* bytes, size_t count) { out_buffer.Expect(at, bytes, count); });

  char* const in_data = first.data() + in_first * element;
  char* const out_data = out_buffer.data() + out_first * element;
  call_ = {.kind = test.kind,
           .dtype = test.dtype,
           .op = test.op,
           .root = test.root,
           .count = test.count,
           .algorithm = test.algorithm,
           .custom = model.Custom(rank)};
  // What a rank does not contribute or get is not looked at: it may be NULL or the other buffer.
  const bool has_in = model.HasInput(rank);
  const bool has_out = model.HasOutput(rank);
  char* const ignored = choice.in_place ? (has_in ? in_data : out_data) : nullptr;
  call_.in = has_in ? in_data : ignored;
  call_.out = has_out ? out_data : ignored;
  if (!model.IsVector() && !model.IsIov()) return;
  auto layout = std::make_shared<BlockLayout>();
  problem_ = std::string(
      LayOut(model, in, out, in_data, out_data, rank, size, &call_, layout.get()).message());
  call_.layout = std::move(layout);
}

std::string CaseCall::Check() const {
  std::string difference =
      buffers_->first.Difference(buffers_->in_place ? "the buffer in place" : "in");
  if (difference.empty() && !buffers_->in_place) difference = buffers_->second.Difference("out");
  return difference.empty() ? "" : fmt::format("rank {}: {}: {}", rank_, test_.Name(), difference);
}

std::string RunCase(ProcessGroup& group, const CollectiveCase& test, const LocalChoice& choice) {
  const CaseCall one(group.rank(), group.size(), test, choice);
  if (!one.problem().empty()) return one.problem();
  const absl::Status status = Issue(group, one.call(), choice.asynchronous);
  if (!status.ok()) return fmt::format("{}: {}", test.Name(), std::string(status.message()));
  return one.Check();
}

}  // namespace weft::test
