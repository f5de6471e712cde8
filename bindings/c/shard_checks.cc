// The C interface of include/weft/shard_checks.h over shard/: samples and copies compared, ranks reported.
#include "weft/shard_checks.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "bindings/c/guard.h"
#include "bindings/c/shard_handles.h"
#include "shard/context/context.h"

namespace weft::shard_calls {
namespace {

int64_t MedianOf(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return values[middle - 1] + (values[middle] - values[middle - 1]) / 2;
}

weft_shard_report_t Summarize(const std::vector<weft_shard_rank_report_t>& ranks) {
  const auto by_elements = [](const auto& a, const auto& b) {
    return a.element_count < b.element_count;
  };
  const auto by_time = [](const auto& a, const auto& b) {
    return a.busy_ns < b.busy_ns;
  };
  // The first of equal ones; minmax_element would give the last of the largest.
  const auto largest = std::max_element(ranks.begin(), ranks.end(), by_elements);
  const auto smallest = std::min_element(ranks.begin(), ranks.end(), by_elements);
  const auto slowest = std::max_element(ranks.begin(), ranks.end(), by_time);
  weft_shard_report_t report = {};
  report.struct_size = sizeof(report);
  report.rank_count = static_cast<int>(ranks.size());
  report.largest_rank = static_cast<int>(largest - ranks.begin());
  report.smallest_rank = static_cast<int>(smallest - ranks.begin());
  report.largest_element_count = largest->element_count;
  report.smallest_element_count = smallest->element_count;
  report.slowest_rank = slowest->busy_ns > 0 ? static_cast<int>(slowest - ranks.begin()) : -1;
  report.slowest_busy_ns = slowest->busy_ns;
  std::vector<int64_t> times;
  times.reserve(ranks.size());
  for (const weft_shard_rank_report_t& rank : ranks)
    times.push_back(rank.busy_ns);
  report.median_busy_ns = MedianOf(std::move(times));
  return report;
}

}  // namespace
}  // namespace weft::shard_calls

namespace calls = weft::shard_calls;
using weft::Guarded;

extern "C" {

weft_result_t weft_shard_check_samples(weft_shard_context_t context, const void* samples,
                                       size_t bytes) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(calls::Check("shard_check_samples", context));
    if (samples == nullptr && bytes > 0) {
      return calls::Invalid("shard_check_samples",
                            weft::StrCat("samples is NULL; pass its ", bytes, " bytes, or 0"));
    }
    return context->context->CheckSamples(samples, bytes);
  });
}

weft_result_t weft_shard_context_verify(weft_shard_context_t context) {
  return calls::CallContext("shard_context_verify", context, &weft::Context::Verify);
}

weft_result_t weft_shard_context_report(weft_shard_context_t context, weft_shard_report_t* report,
                                        weft_shard_rank_report_t* ranks, int rank_count) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_context_report";
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, report, "report"));
    WEFT_RETURN_IF_ERROR(weft::CheckAnswer(kCall, report));
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, context));
    const int expected = ranks == nullptr ? 0 : context->context->rank_count();
    if (rank_count != expected) {
      return calls::Invalid(
          kCall, weft::StrCat("rank_count is ", rank_count, ", ranks ",
                              ranks == nullptr ? "NULL" : "not NULL", "; pass ", expected));
    }
    if (ranks != nullptr) WEFT_RETURN_IF_ERROR(weft::CheckAnswer(kCall, ranks));
    WEFT_ASSIGN_OR_RETURN(const std::vector<weft_shard_rank_report_t> made,
                          context->context->Report());
    weft::WriteAnswer(calls::Summarize(made), report);
    if (ranks == nullptr) return absl::OkStatus();
    // As far apart as the caller's structs are.
    const size_t size = ranks->struct_size;
    auto* to = reinterpret_cast<std::byte*>(ranks);
    for (const weft_shard_rank_report_t& rank : made) {
      auto* const answer = reinterpret_cast<weft_shard_rank_report_t*>(to);
      answer->struct_size = size;
      weft::WriteAnswer(rank, answer);
      to += size;
    }
    return absl::OkStatus();
  });
}

}  // extern "C"
