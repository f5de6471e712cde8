#include "collective_case.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce.h"
#include "comm/node/heap.h"
#include "fmt/format.h"

namespace weft::test {
namespace {

constexpr size_t kCanaryBytes = 256;
constexpr char kCanary = 0x5a;

uint64_t Mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ x >> 33;
}

// Values whose sums depend on the order of additions, within range for every type and operation.
void Fill(const CollectiveCase& test, int rank, size_t count, char* bytes) {
  for (size_t i = 0; i < count; ++i) {
    const uint64_t random = Mix(test.seed * 1000003 + static_cast<uint64_t>(rank) * 7919 + i);
    const double value = (static_cast<double>(random >> 11) * 0x1p-53 - 0.5) *
                         static_cast<double>(1 << (random & 7));
    const auto put = [&](auto typed) {
      std::memcpy(bytes + i * sizeof(typed), &typed, sizeof(typed));
    };
    switch (test.dtype) {
      case WEFT_FLOAT32:
        put(static_cast<float>(value));
        break;
      case WEFT_FLOAT64:
        put(value);
        break;
      case WEFT_FLOAT16:
        put(static_cast<_Float16>(value));
        break;
      case WEFT_BFLOAT16: {
        const auto narrow = static_cast<float>(value);
        uint32_t bits;
        std::memcpy(&bits, &narrow, 4);
        put(static_cast<uint16_t>(bits >> 16));
        break;
      }
      default:
        std::memcpy(bytes + i * DtypeSize(test.dtype), &random, DtypeSize(test.dtype));
    }
  }
}

// Memory with canaries around, private or in the heap.
class Buffer {
 public:
  Buffer(size_t bytes, bool heap, size_t misalignment_bytes)
      : bytes_(bytes), total_(bytes + 2 * kCanaryBytes + 64), heap_(heap) {
    base_ = heap ? static_cast<char*>(*ProcessHeap().Allocate(total_)) : new char[total_];
    std::memset(base_, kCanary, total_);
    data_ = base_ + kCanaryBytes + misalignment_bytes;
  }

  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  ~Buffer() {
    if (heap_) {
      (void)ProcessHeap().Free(base_);
    } else {
      delete[] base_;
    }
  }

  char* data() { return data_; }

  bool CanariesLive() const {
    const char* const begin = base_;
    const char* const end = begin + total_;
    const auto untouched = [](char c) {
      return c == kCanary;
    };
    return std::all_of(begin, begin + (data_ - base_), untouched) &&
           std::all_of(begin + (data_ - base_) + bytes_, end, untouched);
  }

 private:
  size_t bytes_;
  size_t total_;
  bool heap_;
  char* base_;
  char* data_;
};

// Every rank's input, and from that what `rank` must get. Kernels are proved against an independent
// reference in tests/comm/kernels; here the scalar one stands for it.
std::vector<char> Expected(const CollectiveCase& test, int rank, int size) {
  const size_t element = DtypeSize(test.dtype);
  const size_t bytes = test.count * element;
  std::vector<std::vector<char>> inputs(static_cast<size_t>(size));
  for (int r = 0; r < size; ++r) {
    const size_t count =
        test.kind == OpKind::kReduceScatter ? test.count * static_cast<size_t>(size) : test.count;
    inputs[static_cast<size_t>(r)].resize(count * element);
    Fill(test, r, count, inputs[static_cast<size_t>(r)].data());
  }
  if (test.kind == OpKind::kBroadcast) return inputs[static_cast<size_t>(test.root)];
  std::vector<char> expected;
  if (test.kind == OpKind::kAllGather) {
    for (const auto& input : inputs)
      expected.insert(expected.end(), input.begin(), input.end());
    return expected;
  }
  expected.resize(bytes);
  std::vector<const void*> sources;
  const size_t offset = test.kind == OpKind::kReduceScatter ? static_cast<size_t>(rank) * bytes : 0;
  for (const auto& input : inputs)
    sources.push_back(input.data() + offset);
  void* destination = expected.data();
  FindReduceKernel(Isa::kScalar, test.dtype,
                   test.op)({sources.data(), size, &destination, 1, test.count, size});
  return expected;
}

}  // namespace

std::string CollectiveCase::Name() const {
  return fmt::format("{} {} {} count {} root {} seed {}", OpKindName(kind), DtypeName(dtype),
                     OpName(op), count, root, seed);
}

LocalChoice LocalChoice::FromSeed(uint64_t seed, int rank) {
  const uint64_t random = Mix(seed * 31 + static_cast<uint64_t>(rank) + 17);
  return {.in_place = (random & 1) != 0,
          .asynchronous = (random & 2) != 0,
          .heap_in = (random & 4) != 0,
          .heap_out = (random & 8) != 0,
          .misalignment_in = random >> 8 & 3,
          .misalignment_out = random >> 10 & 3};
}

std::string RunCase(ProcessGroup& group, const CollectiveCase& test, const LocalChoice& choice) {
  const int rank = group.rank();
  const int size = group.size();
  Collective call{.kind = test.kind,
                  .dtype = test.dtype,
                  .op = test.op,
                  .root = test.root,
                  .count = test.count};
  const size_t element = DtypeSize(test.dtype);
  const size_t in_bytes = InputBytes(call, size);
  const size_t out_bytes = OutputBytes(call, size);
  const bool has_in = test.kind != OpKind::kBroadcast || test.root == rank;
  const bool has_out = test.kind != OpKind::kReduce || test.root == rank;
  const size_t block = static_cast<size_t>(rank) * test.count * element;

  Buffer in(std::max(in_bytes, out_bytes), choice.heap_in, choice.misalignment_in * element);
  Buffer out(out_bytes, choice.heap_out, choice.misalignment_out * element);
  char* in_data = in.data();
  char* out_data = out.data();
  bool in_place = choice.in_place && has_in && has_out;
  if (in_place) {
    out_data = in_data;
    if (test.kind == OpKind::kAllGather) in_data += block;
    if (test.kind == OpKind::kReduceScatter) out_data += block;
  }
  Fill(test, rank, in_bytes / element, in_data);
  // What a rank does not contribute or get is not looked at: it may be NULL or the other buffer.
  char* const ignored = choice.in_place ? (has_in ? in_data : out_data) : nullptr;
  call.in = has_in ? in_data : ignored;
  call.out = has_out ? out_data : ignored;
  const absl::Status checked = CheckCollective(call, rank, size);
  if (!checked.ok()) return std::string(checked.message());
  absl::Status status;
  if (choice.asynchronous) {
    absl::StatusOr<WorkRef> work = group.Start(call);
    status = work.ok() ? (*work)->Wait(0) : work.status();
  } else {
    status = group.Run(call);
  }
  if (!status.ok()) return std::string(status.message());
  if (has_out) {
    const std::vector<char> expected = Expected(test, rank, size);
    for (size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] == out_data[i]) continue;
      return fmt::format("rank {}: {}: byte {} (element {}) differs{}", rank, test.Name(), i,
                         i / element, in_place ? ", in place" : "");
    }
  }
  if (!in_place && has_in && in_bytes > 0) {
    std::vector<char> input(in_bytes);
    Fill(test, rank, in_bytes / element, input.data());
    if (std::memcmp(input.data(), in_data, in_bytes) != 0) return test.Name() + ": in was changed";
  }
  // The buffer for the input is as large as the larger of both, so its own canaries start later.
  if (!out.CanariesLive()) return test.Name() + ": wrote around out";
  return "";
}

}  // namespace weft::test
