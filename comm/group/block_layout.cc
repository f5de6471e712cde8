#include "comm/group/block_layout.h"

#include <string_view>
#include <vector>

#include "base/status.h"
#include "comm/group/number_hash.h"
#include "fmt/format.h"

namespace weft {
namespace {

// One side as vectors of `size` blocks; packed where no offsets are given. False if a sum does not fit.
bool Fill(const Blocks& blocks, int size, std::vector<size_t>* counts,
          std::vector<size_t>* offsets) {
  const auto block_count = static_cast<size_t>(size);
  counts->assign(blocks.counts, blocks.counts + block_count);
  if (blocks.offsets != nullptr) {
    offsets->assign(blocks.offsets, blocks.offsets + block_count);
    return true;
  }
  size_t begin = 0;
  for (size_t count : *counts) {
    offsets->push_back(begin);
    if (__builtin_add_overflow(begin, count, &begin)) return false;
  }
  return true;
}

// A side of all zeros but one block, which begins at 0.
void FillOne(int block, int size, size_t count, std::vector<size_t>* counts,
             std::vector<size_t>* offsets) {
  counts->assign(static_cast<size_t>(size), 0);
  offsets->assign(static_cast<size_t>(size), 0);
  (*counts)[static_cast<size_t>(block)] = count;
}

absl::Status TooMuch(const Collective& call) {
  return InvalidCall(call, "the sum of the counts does not fit in memory");
}

bool Sum(const std::vector<size_t>& counts, size_t* sum) {
  *sum = 0;
  for (size_t count : counts) {
    if (__builtin_add_overflow(*sum, count, sum)) return false;
  }
  return true;
}

// all_gather_v and reduce_scatter_v: the counts of one side are everybody's.
absl::Status LayOutShared(const Blocks& blocks, bool in, int rank, int size, BlockLayout* layout,
                          Collective* call) {
  if (blocks.counts == nullptr) return InvalidCall(*call, "counts is NULL");
  std::vector<size_t>& counts = in ? layout->in_counts : layout->out_counts;
  std::vector<size_t>& offsets = in ? layout->in_offsets : layout->out_offsets;
  if (!Fill(blocks, size, &counts, &offsets) || !Sum(counts, &call->count)) return TooMuch(*call);
  (in ? layout->out_counts : layout->in_counts).assign(1, counts[static_cast<size_t>(rank)]);
  (in ? layout->out_offsets : layout->in_offsets).assign(1, 0);
  NumberHash hash;
  for (size_t count : counts)
    hash.Add(count);
  for (size_t offset : offsets) {
    if (in) hash.Add(offset);
  }
  layout->hash = hash.Get();
  return absl::OkStatus();
}

}  // namespace

absl::Status LayOutBlocks(const Blocks& in, const Blocks& out, int rank, int size,
                          BlockLayout* layout, Collective* call) {
  if (call->kind == OpKind::kAllGatherV) return LayOutShared(out, false, rank, size, layout, call);
  if (call->kind == OpKind::kReduceScatterV) {
    return LayOutShared(in, true, rank, size, layout, call);
  }
  if (HasRoot(call->kind) && (call->root < 0 || call->root >= size)) {
    return InvalidCall(*call,
                       fmt::format("root {} is not one of the ranks 0..{}", call->root, size - 1));
  }
  const bool gather = call->kind == OpKind::kGatherV;
  const bool scatter = call->kind == OpKind::kScatterV;
  const bool root = call->root == rank;
  if (gather) {
    FillOne(call->root, size, *in.counts, &layout->in_counts, &layout->in_offsets);
  } else if (scatter && !root) {
    FillOne(rank, size, 0, &layout->in_counts, &layout->in_offsets);
  } else {
    if (in.counts == nullptr) return InvalidCall(*call, "counts of in is NULL");
    if (!Fill(in, size, &layout->in_counts, &layout->in_offsets)) return TooMuch(*call);
  }
  if (scatter) {
    FillOne(call->root, size, *out.counts, &layout->out_counts, &layout->out_offsets);
  } else if (gather && !root) {
    FillOne(rank, size, 0, &layout->out_counts, &layout->out_offsets);
  } else {
    if (out.counts == nullptr) return InvalidCall(*call, "counts of out is NULL");
    if (!Fill(out, size, &layout->out_counts, &layout->out_offsets)) return TooMuch(*call);
  }
  size_t received = 0;
  if (!Sum(layout->in_counts, &call->count) || !Sum(layout->out_counts, &received)) {
    return TooMuch(*call);
  }
  return absl::OkStatus();
}

absl::Status LayOutParts(const weft_iov_t* parts, size_t part_count, BlockLayout* layout,
                         Collective* call) {
  if (part_count > WEFT_IOV_PARTS_MAX) {
    return InvalidCall(
        *call, fmt::format("{} parts, at most {} are allowed", part_count, WEFT_IOV_PARTS_MAX));
  }
  if (parts == nullptr && part_count > 0) return InvalidCall(*call, "parts is NULL");
  NumberHash hash;
  hash.Add(part_count);
  // Empty parts would make a place in the concatenation ambiguous, and have nothing to say.
  size_t begin = 0;
  for (size_t i = 0; i < part_count; ++i) {
    hash.Add(parts[i].count);
    if (parts[i].count == 0) continue;
    layout->parts.push_back(parts[i]);
    layout->starts.push_back(begin);
    if (__builtin_add_overflow(begin, parts[i].count, &begin)) return TooMuch(*call);
  }
  layout->starts.push_back(begin);
  layout->hash = hash.Get();
  call->count = begin;
  return absl::OkStatus();
}

absl::Status CountElements(BlockLayout* layout, Collective* call) {
  const size_t values = ValuesPerElement(*call);
  if (values == 1) return absl::OkStatus();
  const auto divide = [&](size_t* number, std::string_view what) {
    if (*number % values != 0) {
      return InvalidCall(*call, fmt::format("{} {} is not a multiple of {}, the element_count of "
                                            "the reduction \"{}\"; pass whole elements",
                                            what, *number, values, call->custom->name));
    }
    *number /= values;
    return absl::OkStatus();
  };
  // Empty blocks may lie anywhere, and nobody looks where.
  const auto divide_side = [&](std::vector<size_t>& counts, std::vector<size_t>& offsets) {
    for (size_t block = 0; block < counts.size(); ++block) {
      if (counts[block] == 0) continue;
      WEFT_RETURN_IF_ERROR(divide(&counts[block], "a block's count"));
      WEFT_RETURN_IF_ERROR(divide(&offsets[block], "a displacement of"));
    }
    return absl::OkStatus();
  };
  if (layout != nullptr) {
    WEFT_RETURN_IF_ERROR(divide_side(layout->in_counts, layout->in_offsets));
    WEFT_RETURN_IF_ERROR(divide_side(layout->out_counts, layout->out_offsets));
    for (weft_iov_t& part : layout->parts)
      WEFT_RETURN_IF_ERROR(divide(&part.count, "a part's count"));
    for (size_t& start : layout->starts)
      start /= values;
  }
  return divide(&call->count, "count");
}

}  // namespace weft
