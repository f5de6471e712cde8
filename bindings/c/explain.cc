#include "weft/explain.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/c/call_options.h"
#include "bindings/c/guard.h"
#include "bindings/c/handles.h"
#include "bindings/c/op.h"
#include "bindings/c/struct_size.h"
#include "comm/group/block_layout.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce.h"

namespace weft {
namespace {

constexpr const char* kCall = "weft_explain";

absl::Status FindKind(const char* operation, OpKind* kind) {
  if (operation == nullptr) return InvalidArgument(kCall, "operation is NULL");
  const std::optional<OpKind> found = FindOpKind(operation);
  if (!found) return InvalidArgument(kCall, StrCat("there is no operation \"", operation, "\""));
  *kind = *found;
  return absl::OkStatus();
}

absl::Status ReadReduction(weft_op_t op, Collective* call) {
  if (op >= WEFT_OP_CUSTOM_FIRST) {
    absl::StatusOr<std::shared_ptr<const CustomOp>> custom = CustomOpOf(op);
    if (!custom.ok()) return InvalidArgument(kCall, FromAbsl(custom.status().message()));
    call->op = (*custom)->kind;
    call->custom = *std::move(custom);
    WEFT_RETURN_IF_ERROR(CountElements(nullptr, call));
  }
  const absl::Status reduction = CheckReduction(call->dtype, call->op, call->custom.get());
  return reduction.ok() ? reduction : InvalidArgument(kCall, FromAbsl(reduction.message()));
}

BufferKind BufferKindOf(int symmetric) {
  if (symmetric == 0) return BufferKind::kPrivate;
  return symmetric == 2 ? BufferKind::kShared : BufferKind::kSymmetric;
}

// The queried call on rank 0, every block of the same size.
absl::Status MakeCall(const weft_explain_query_t& query, int size, Collective* call) {
  WEFT_RETURN_IF_ERROR(FindKind(query.operation, &call->kind));
  if (DtypeSize(query.dtype) == 0) {
    return InvalidArgument(kCall, StrCat(static_cast<int>(query.dtype), " is not a data type"));
  }
  call->dtype = query.dtype;
  call->op = query.op;
  call->count = query.count;
  if ((query.fields & ~WEFT_CALL_STRICT_ALGORITHM) != 0) {
    return InvalidArgument(
        kCall, StrCat("fields has bits that say nothing to weft_explain: ", query.fields));
  }
  WEFT_RETURN_IF_ERROR(ReadAlgorithm(kCall, query.algorithm, query.fields, call));
  if (TraitsOf(call->kind).reduces) WEFT_RETURN_IF_ERROR(ReadReduction(query.op, call));
  size_t bytes = 0;
  const size_t count = call->count;
  if (__builtin_mul_overflow(count, ElementBytes(*call), &bytes) ||
      __builtin_mul_overflow(bytes, static_cast<size_t>(size), &bytes) || bytes > PTRDIFF_MAX) {
    return InvalidArgument(kCall, StrCat(query.count, " elements do not fit in memory"));
  }
  auto layout = std::make_shared<BlockLayout>();
  if (TraitsOf(call->kind).iov) {
    const weft_iov_t part{nullptr, nullptr, count};
    WEFT_RETURN_IF_ERROR(LayOutParts(&part, 1, layout.get(), call));
    call->layout = layout;
  } else if (HasLayout(call->kind)) {
    const std::vector<size_t> counts(static_cast<size_t>(size), count);
    const Blocks blocks{counts.data(), nullptr};
    WEFT_RETURN_IF_ERROR(LayOutBlocks(blocks, blocks, 0, size, layout.get(), call));
    call->layout = layout;
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace weft

weft_result_t weft_explain(weft_group_t group, const weft_explain_query_t* query, char* text,
                           size_t capacity, size_t* length) {
  return weft::Guarded([&]() -> absl::Status {
    using weft::kCall;
    WEFT_RETURN_IF_ERROR(weft::CheckGroup(kCall, group));
    if (query == nullptr) return weft::InvalidArgument(kCall, "query is NULL");
    if (text == nullptr && capacity > 0) return weft::InvalidArgument(kCall, "text is NULL");
    weft_explain_query_t full{};
    WEFT_RETURN_IF_ERROR(weft::ReadConfig(kCall, query, &full));
    weft::Collective call;
    WEFT_RETURN_IF_ERROR(weft::MakeCall(full, group->group->size(), &call));
    const std::string whole = group->group->Explain(call, weft::BufferKindOf(full.symmetric));
    if (capacity > 0) {
      const size_t bytes = std::min(capacity - 1, whole.size());
      std::memcpy(text, whole.data(), bytes);
      text[bytes] = 0;
    }
    if (length != nullptr) *length = whole.size();
    return absl::OkStatus();
  });
}
