#include "collective_model.h"

#include <cstring>

#include "base/check.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce.h"
#include "comm/kernels/reduce_stage.h"
#include "tests/comm/kernels/reference.h"

namespace weft::test {
namespace {

uint64_t Mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ x >> 33;
}

// A value whose sums depend on the order of additions, within range for every type and operation.
void PutElement(weft_dtype_t dtype, uint64_t random, char* to) {
  const double value =
      (static_cast<double>(random >> 11) * 0x1p-53 - 0.5) * static_cast<double>(1 << (random & 7));
  const auto put = [&](auto typed) {
    std::memcpy(to, &typed, sizeof(typed));
  };
  switch (dtype) {
    case WEFT_FLOAT32:
      return put(static_cast<float>(value));
    case WEFT_FLOAT64:
      return put(value);
    case WEFT_FLOAT16:
      return put(static_cast<uint16_t>(EncodeFloat(dtype, static_cast<float>(value))));
    case WEFT_BFLOAT16: {
      const auto narrow = static_cast<float>(value);
      uint32_t bits;
      std::memcpy(&bits, &narrow, 4);
      return put(static_cast<uint16_t>(bits >> 16));
    }
    default:
      std::memcpy(to, &random, DtypeSize(dtype));
  }
}

enum class Form { kWhole, kBlocks };

struct Forms {
  Form in;
  Form out;
  bool reduces;
};

Forms FormsOf(OpKind kind) {
  switch (kind) {
    case OpKind::kAllReduce:
    case OpKind::kAllReduceIov:
    case OpKind::kReduce:
    case OpKind::kScan:
    case OpKind::kExscan:
      return {Form::kWhole, Form::kWhole, true};
    case OpKind::kReduceScatter:
    case OpKind::kReduceScatterV:
    case OpKind::kReduceScatterIov:
      return {Form::kBlocks, Form::kWhole, true};
    case OpKind::kAllGather:
    case OpKind::kAllGatherV:
    case OpKind::kAllGatherIov:
    case OpKind::kGather:
    case OpKind::kGatherV:
      return {Form::kWhole, Form::kBlocks, false};
    case OpKind::kScatter:
    case OpKind::kScatterV:
      return {Form::kBlocks, Form::kWhole, false};
    case OpKind::kAllToAll:
    case OpKind::kAllToAllV:
      return {Form::kBlocks, Form::kBlocks, false};
    default:
      return {Form::kWhole, Form::kWhole, false};
  }
}

}  // namespace

CollectiveModel::CollectiveModel(const CollectiveCase& test, int size) : test_(test), size_(size) {
  if (!IsIov()) return;
  const size_t parts = 1 + Mix(test.seed) % 5;
  size_t left = test.count;
  for (size_t part = 0; part + 1 < parts; ++part) {
    const size_t count = left == 0 ? 0 : Mix(test.seed + part + 1) % (left + 1);
    part_counts_.push_back(count);
    left -= count;
  }
  part_counts_.push_back(left);
}

bool CollectiveModel::IsIov() const {
  return test_.kind == OpKind::kAllReduceIov || test_.kind == OpKind::kAllGatherIov ||
         test_.kind == OpKind::kReduceScatterIov;
}

bool CollectiveModel::IsVector() const {
  return test_.kind >= OpKind::kAllGatherV && test_.kind <= OpKind::kAllToAllV;
}

bool CollectiveModel::HasInput(int rank) const {
  const bool from_root = test_.kind == OpKind::kBroadcast || test_.kind == OpKind::kScatter ||
                         test_.kind == OpKind::kScatterV;
  return !from_root || test_.root == rank;
}

bool CollectiveModel::HasOutput(int rank) const {
  const bool to_root = test_.kind == OpKind::kReduce || test_.kind == OpKind::kGather ||
                       test_.kind == OpKind::kGatherV;
  return (!to_root || test_.root == rank) && (test_.kind != OpKind::kExscan || rank != 0);
}

// all_to_all_v in place needs a symmetric matrix; even seeds have one.
bool CollectiveModel::CanBeInPlace(int rank) const {
  if (test_.kind == OpKind::kAllToAllV && test_.seed % 2 == 1) return false;
  return HasInput(rank) && HasOutput(rank);
}

size_t CollectiveModel::Shared(int rank) const {
  return IsVector() ? Mix(test_.seed * 977 + static_cast<uint64_t>(rank)) % (test_.count + 1)
                    : test_.count;
}

size_t CollectiveModel::Sent(int from, int to) const {
  if (!IsVector()) return test_.count;
  if (test_.seed % 2 == 0 && from > to) std::swap(from, to);
  const auto pair = static_cast<uint64_t>(from * size_ + to);
  return pair % 5 == 4 ? 0 : Mix(test_.seed * 31 + pair) % (test_.count + 1);
}

size_t CollectiveModel::InCount(int rank, int block) const {
  switch (test_.kind) {
    case OpKind::kAllGatherV:
    case OpKind::kGatherV:
      return Shared(rank);
    case OpKind::kReduceScatterV:
    case OpKind::kScatterV:
      return Shared(block);
    case OpKind::kAllToAllV:
      return Sent(rank, block);
    default:
      return test_.count;
  }
}

size_t CollectiveModel::OutCount(int rank, int block) const {
  switch (test_.kind) {
    case OpKind::kAllGatherV:
    case OpKind::kGatherV:
      return Shared(block);
    case OpKind::kReduceScatterV:
    case OpKind::kScatterV:
      return Shared(rank);
    case OpKind::kAllToAllV:
      return Sent(block, rank);
    default:
      return test_.count;
  }
}

Side CollectiveModel::Make(int rank, bool in) const {
  const Forms forms = FormsOf(test_.kind);
  const Form form = in ? forms.in : forms.out;
  const int blocks = form == Form::kBlocks ? size_ : 1;
  Side side;
  if (in ? !HasInput(rank) : !HasOutput(rank)) return side;
  if (IsIov()) {
    size_t begin = 0;
    for (const size_t count : part_counts_) {
      for (int block = 0; block < blocks; ++block) {
        side.pieces.push_back({block, begin, count, side.extent});
        side.extent += count;
      }
      side.extent += 3;  // parts do not follow each other
      begin += count;
    }
    return side;
  }
  // Blocks of vector forms lie in the order of the ranks or against it, with gaps or without.
  const uint64_t arrangement = IsVector() && form == Form::kBlocks ? test_.seed / 2 % 3 : 0;
  side.counts.resize(static_cast<size_t>(blocks));
  side.offsets.resize(static_cast<size_t>(blocks));
  for (int i = 0; i < blocks; ++i) {
    const int block = arrangement == 2 ? blocks - 1 - i : i;
    const size_t count = in ? InCount(rank, block) : OutCount(rank, block);
    side.counts[static_cast<size_t>(block)] = count;
    side.offsets[static_cast<size_t>(block)] = side.extent;
    side.pieces.push_back({block, 0, count, side.extent});
    side.extent += count + (arrangement == 0 ? 0 : static_cast<size_t>(i % 3));
  }
  return side;
}

Side CollectiveModel::In(int rank) const {
  return Make(rank, true);
}

Side CollectiveModel::Out(int rank) const {
  return Make(rank, false);
}

size_t CollectiveModel::InPlaceIn(int rank) const {
  const Forms forms = FormsOf(test_.kind);
  if (forms.in == Form::kBlocks || forms.out == Form::kWhole) return 0;
  return Out(rank).offsets[static_cast<size_t>(rank)];
}

size_t CollectiveModel::InPlaceOut(int rank) const {
  const Forms forms = FormsOf(test_.kind);
  if (forms.out == Form::kBlocks || forms.in == Form::kWhole) return 0;
  return In(rank).offsets[static_cast<size_t>(rank)];
}

size_t CollectiveModel::ValuesPerElement() const {
  return TraitsOf(test_.kind).reduces && test_.op == kOpUser ? test_.element_count : 1;
}

size_t CollectiveModel::element() const {
  return (TraitsOf(test_.kind).reduces ? ElementBytes(test_.dtype, test_.op)
                                       : DtypeSize(test_.dtype)) *
         ValuesPerElement();
}

// premul_sum: another factor for each rank. The user's reduction is neither commutative nor associative,
// so that only the canonical tree gives its result; and each byte of an element depends on others of it,
// so that only whole elements do.
std::shared_ptr<const CustomOp> CollectiveModel::Custom(int rank) const {
  if (!TraitsOf(test_.kind).reduces) return nullptr;
  auto op = std::make_shared<CustomOp>();
  op->kind = test_.op;
  op->dtype = test_.dtype;
  if (test_.op == kOpPremulSum) {
    std::vector<char> factor(DtypeSize(test_.dtype));
    PutElement(test_.dtype, Mix(test_.seed + static_cast<uint64_t>(rank)), factor.data());
    op->factor = FactorBits(test_.dtype, factor.data());
    return op;
  }
  if (test_.op != kOpUser) return nullptr;
  op->name = "mix bytes";
  op->element_count = ValuesPerElement();
  op->owner = std::make_shared<size_t>(op->element_count);
  op->user = op->owner.get();
  op->function = [](const void* left, const void* right, void* out, size_t count,
                    weft_dtype_t dtype, void* user) {
    const size_t values = *static_cast<const size_t*>(user);
    const size_t bytes = values * DtypeSize(dtype);
    const auto* a = static_cast<const unsigned char*>(left);
    const auto* b = static_cast<const unsigned char*>(right);
    auto* to = static_cast<unsigned char*>(out);
    std::vector<unsigned char> mixed(bytes);  // `out` may be `left`
    for (size_t element = 0; element < count / values; ++element) {
      for (size_t i = 0; i < bytes; ++i) {
        const int own = a[i] * 3 + b[i] * 7;
        mixed[i] = static_cast<unsigned char>(own + (a[bytes - 1 - i] + b[(i + 1) % bytes]) * 2);
      }
      std::memcpy(to, mixed.data(), bytes);
      a += bytes, b += bytes, to += bytes;
    }
  };
  return op;
}

std::vector<char> CollectiveModel::Input(int rank, int block) const {
  const size_t count = InCount(rank, block);
  std::vector<char> bytes(count * element());
  for (size_t i = 0; i < count; ++i) {
    const uint64_t place =
        static_cast<uint64_t>(rank) * 7919 + static_cast<uint64_t>(block) * 104729;
    for (size_t value = 0; value < ValuesPerElement(); ++value) {
      PutElement(test_.dtype, Mix(test_.seed * 1000003 + place + i + value * 15485863),
                 bytes.data() + i * element() + value * DtypeSize(test_.dtype));
    }
    if (TraitsOf(test_.kind).reduces && IsLocOp(test_.op)) {
      const auto index = static_cast<int64_t>(Mix(place + i) % 7);  // equal ones too
      std::memcpy(bytes.data() + i * element() + 8, &index, sizeof(index));
    }
  }
  return bytes;
}

// Kernels are proved against an independent reference in tests/comm/kernels; here the scalar one stands
// for it.
std::vector<char> CollectiveModel::Expected(int rank, int block) const {
  const Forms forms = FormsOf(test_.kind);
  const int in_block = forms.in == Form::kBlocks ? rank : 0;
  if (!forms.reduces) {
    return Input(forms.out == Form::kBlocks ? block : test_.root, in_block);
  }
  // A scan's result is that of the same ranks alone.
  const int ranks = test_.kind == OpKind::kScan     ? rank + 1
                    : test_.kind == OpKind::kExscan ? rank
                                                    : size_;
  std::vector<std::vector<char>> inputs;
  std::vector<const void*> sources;
  for (int from = 0; from < ranks; ++from)
    inputs.push_back(Input(from, in_block));
  for (const auto& input : inputs)
    sources.push_back(input.data());
  std::vector<char> expected(inputs[0].size());
  void* destination = expected.data();
  const size_t count = InCount(rank, in_block);
  if (count == 0) return expected;
  std::vector<uint64_t> factors;
  for (int from = 0; from < ranks; ++from)
    factors.push_back(test_.op == kOpPremulSum ? Custom(from)->factor : 0);
  // The canonical tree of more ranks than a kernel adds at once: its left subtree has 64 of them.
  std::vector<std::vector<char>> halves;
  ReduceStage stage = ReduceStage::kWhole;
  if (ranks > kSourcesMax) {
    WEFT_CHECK(ranks <= 2 * kSourcesMax);
    for (const int first : {0, kSourcesMax}) {
      halves.emplace_back(count * DtypeSize(AccumulatorDtype(test_.dtype, test_.op)) *
                          ValuesPerElement());
      void* half = halves.back().data();
      Add(ReduceStage::kFirst, {.sources = sources.data() + first,
                                .source_count = first == 0 ? kSourcesMax : ranks - first,
                                .destinations = &half,
                                .destination_count = 1,
                                .count = count,
                                .divisor = 0,
                                .factors = factors.data() + first});
    }
    sources = {halves[0].data(), halves[1].data()};
    stage = ReduceStage::kLast;
  }
  Add(stage, {.sources = sources.data(),
              .source_count = static_cast<int>(sources.size()),
              .destinations = &destination,
              .destination_count = 1,
              .count = count,
              .divisor = ranks,
              .factors = stage == ReduceStage::kWhole ? factors.data() : nullptr});
  return expected;
}

void CollectiveModel::Add(ReduceStage stage, const ReduceArguments& arguments) const {
  if (test_.op == kOpUser) return ReduceByUser(*Custom(0), test_.dtype, arguments);
  FindReduceKernel(Isa::kScalar, test_.dtype, test_.op, stage)(arguments);
}

}  // namespace weft::test
