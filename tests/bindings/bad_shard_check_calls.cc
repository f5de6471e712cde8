// The calls of shard_checks.h with one wrong argument each, and each call where it is not legal.
#include "tests/bindings/bad_input.h"
#include "tests/bindings/shard_calls.h"

namespace weft::test {
namespace {

weft_result_t Report(weft_shard_context_t context, weft_shard_rank_report_t* ranks,
                     int rank_count) {
  weft_shard_report_t report = {};
  report.struct_size = sizeof(report);
  return weft_shard_context_report(context, &report, ranks, rank_count);
}

// To where samples are in use and no report is possible.
void BeginForward(Bench& bench) {
  EXPECT_EQ(StepBegin(bench.ready, WEFT_SHARD_TRAIN, 0), WEFT_SUCCESS);
  EXPECT_EQ(MicrobatchBegin(bench.ready, 0, 1), WEFT_SUCCESS);
  EXPECT_EQ(weft_shard_pre_forward(bench.unit, nullptr), WEFT_SUCCESS);
}

void AddSampleFaults(std::vector<BadCall>* calls) {
  constexpr char kFunction[] = "weft_shard_check_samples";
  AddHandleFaults<weft_shard_context_t>(
      kFunction, "context",
      [](Bench&, weft_shard_context_t c) { return weft_shard_check_samples(c, "ab", 2); }, calls);
  calls->push_back(
      {kFunction, "samples_NULL", WEFT_INVALID_ARGUMENT, "samples is NULL", [](Bench& b) {
         return weft_shard_check_samples(b.ready, nullptr, 2);
       }});
  calls->push_back(
      {kFunction, "a_context_not_ready_for_it", WEFT_BAD_STATE, "is not legal here", [](Bench& b) {
         return weft_shard_check_samples(b.open, "ab", 2);
       }});
  calls->push_back({kFunction, "a_unit_in_use", WEFT_BAD_STATE, "is in forward", [](Bench& b) {
                      BeginForward(b);
                      return weft_shard_check_samples(b.ready, "ab", 2);
                    }});
}

void AddReportFaults(std::vector<BadCall>* calls) {
  constexpr char kFunction[] = "weft_shard_context_report";
  AddHandleFaults<weft_shard_context_t>(
      kFunction, "context", [](Bench&, weft_shard_context_t c) { return Report(c, nullptr, 0); },
      calls);
  calls->push_back(
      {kFunction, "report_NULL", WEFT_INVALID_ARGUMENT, "report is NULL", [](Bench& b) {
         return weft_shard_context_report(b.ready, nullptr, nullptr, 0);
       }});
  for (const size_t struct_size : {size_t{0}, size_t{1}, size_t{4}, SIZE_MAX}) {
    const std::string name = "struct_size_" + std::to_string(struct_size);
    calls->push_back(
        {kFunction, name, WEFT_INVALID_ARGUMENT, "struct_size", [struct_size](Bench& b) {
           return WithAnswer<weft_shard_report_t>(struct_size, [&b](weft_shard_report_t* report) {
             return weft_shard_context_report(b.ready, report, nullptr, 0);
           });
         }});
    calls->push_back(
        {kFunction, "rank_" + name, WEFT_INVALID_ARGUMENT, "struct_size", [struct_size](Bench& b) {
           return WithAnswer<weft_shard_rank_report_t>(
               struct_size,
               [&b](weft_shard_rank_report_t* rank) { return Report(b.ready, rank, 1); });
         }});
  }
  for (const int count : {-1, 1}) {
    calls->push_back({kFunction, count < 0 ? "no_ranks_but_minus_1" : "no_ranks_but_1",
                      WEFT_INVALID_ARGUMENT, "rank_count is " + std::to_string(count),
                      [count](Bench& b) {
                        return Report(b.ready, nullptr, count);
                      }});
  }
  for (const int count : {0, 2, -1}) {
    calls->push_back(
        {kFunction, count < 0 ? "minus_1_ranks" : std::to_string(count) + "_ranks_of_1",
         WEFT_INVALID_ARGUMENT, "rank_count is " + std::to_string(count), [count](Bench& b) {
           weft_shard_rank_report_t ranks[2] = {};
           ranks[0].struct_size = sizeof(ranks[0]);
           return Report(b.ready, ranks, count);
         }});
  }
  calls->push_back(
      {kFunction, "a_context_not_ready_for_it", WEFT_BAD_STATE, "is not legal here", [](Bench& b) {
         return Report(b.open, nullptr, 0);
       }});
  calls->push_back(
      {kFunction, "a_step_under_way", WEFT_BAD_STATE, "is not legal here", [](Bench& b) {
         BeginForward(b);
         return Report(b.ready, nullptr, 0);
       }});
}

void AddConfigFault(std::vector<BadCall>* calls) {
  calls->push_back({"weft_shard_context_create", "verify_steps_minus_1", WEFT_INVALID_ARGUMENT,
                    "verify_steps is -1", [](Bench& b) {
                      weft_shard_config_t config = {};
                      config.struct_size = sizeof(config);
                      config.verify_steps = -1;
                      return weft_shard_context_create(b.mesh, &config, &b.out.context);
                    }});
}

}  // namespace

std::vector<BadCall> BadShardCheckCalls() {
  std::vector<BadCall> calls;
  AddSampleFaults(&calls);
  AddReportFaults(&calls);
  AddConfigFault(&calls);
  return calls;
}

}  // namespace weft::test
