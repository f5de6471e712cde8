// Two params that claim the same elements would be written to one place of a checkpoint, and the last one would win; two that see
// the tensor in different shapes would each be read as something else. Neither shows while a model trains, so it is refused before.
#include "shard/layout/global_interval.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "shard/layout/registry.h"

namespace weft {
namespace {

// Far from overflow, whatever the type.
constexpr size_t kElementsMax = size_t{1} << 60;

absl::Status Refused(const ParamSpec& param, std::string_view what) {
  return WithSubject(MakeError(WEFT_INVALID_ARGUMENT, {}, std::string(what)), {}, param.name);
}

std::string IntervalText(const ParamSpec& param) {
  return StrCat("parameter ", param.name, " is elements ", param.global.begin, " to ",
                param.global.begin + param.count - 1);
}

// Whether two params see one tensor in the same way.
absl::Status CheckAlike(const ParamSpec& one, const ParamSpec& other) {
  if (one.global.shape != other.global.shape) {
    return Refused(
        other, StrCat("global tensor ", one.global.name, " has shape [",
                      absl::StrJoin(one.global.shape, ", "), "] for parameter ", one.name, " and [",
                      absl::StrJoin(other.global.shape, ", "), "] for parameter ", other.name,
                      "; give both the shape of the whole tensor"));
  }
  if (one.dtype == other.dtype) return absl::OkStatus();
  return Refused(other, StrCat("of global tensor ", one.global.name, ", parameter ", one.name,
                               " is ", DtypeName(one.dtype), " and parameter ", other.name, " is ",
                               DtypeName(other.dtype), "; give the params of one tensor one type"));
}

}  // namespace

GlobalInterval WholeTensor(std::string_view name, const std::vector<int64_t>& shape, size_t count) {
  return {.name = std::string(name), .shape = shape, .total = count, .begin = 0};
}

absl::StatusOr<size_t> CountOfShape(std::string_view call, std::string_view what,
                                    const int64_t* shape, int ndim) {
  const auto invalid = [&](const std::string& problem) {
    return MakeError(WEFT_INVALID_ARGUMENT, {.operation = std::string(call)},
                     StrCat(call, ": ", what, " has ", problem));
  };
  bool empty = false;
  for (int i = 0; i < ndim; ++i) {
    if (shape[i] < 0) {
      return invalid(StrCat("dimension ", i, " = ", shape[i], "; dimensions are 0 or more"));
    }
    empty = empty || shape[i] == 0;
  }
  if (empty) return size_t{0};
  size_t count = 1;
  for (int i = 0; i < ndim; ++i) {
    if (__builtin_mul_overflow(count, static_cast<size_t>(shape[i]), &count) ||
        count > kElementsMax) {
      return invalid("more elements than any memory holds; check its shape");
    }
  }
  return count;
}

absl::Status CheckGlobalIntervals(const std::vector<ParamSpec>& params) {
  std::vector<const ParamSpec*> sorted;
  sorted.reserve(params.size());
  for (const ParamSpec& param : params)
    sorted.push_back(&param);
  // Stable, so that all ranks name the same two.
  std::stable_sort(sorted.begin(), sorted.end(), [](const ParamSpec* a, const ParamSpec* b) {
    if (a->global.name != b->global.name) return a->global.name < b->global.name;
    return a->global.begin < b->global.begin;
  });
  const ParamSpec* first = nullptr;   // of the tensor
  const ParamSpec* before = nullptr;  // the last one of it that has elements
  for (const ParamSpec* param : sorted) {
    if (first == nullptr || first->global.name != param->global.name) {
      first = param;
      before = nullptr;
    }
    WEFT_RETURN_IF_ERROR(CheckAlike(*first, *param));
    if (param->count == 0) continue;
    if (before != nullptr && before->global.begin + before->count > param->global.begin) {
      return Refused(*param, StrCat("of global tensor ", param->global.name, ", ",
                                    IntervalText(*before), " and ", IntervalText(*param),
                                    "; give each param an interval of its own"));
    }
    before = param;
  }
  return absl::OkStatus();
}

}  // namespace weft
