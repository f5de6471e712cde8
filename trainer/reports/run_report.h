// The report of a run that has come to its end: what it reached, how fast it was and why not
// faster, what it took.
//
//   const Page page = MakeRunReport(facts);
//   WriteRunFile(directory, "report.html", HtmlOf(page));
//
// Thread-safety: pure functions.
#ifndef WEFT_TRAINER_REPORTS_RUN_REPORT_H_
#define WEFT_TRAINER_REPORTS_RUN_REPORT_H_

#include <cstddef>
#include <optional>
#include <string>

#include "weft/shard_step.h"

#include "trainer/config.h"
#include "trainer/curve.h"
#include "trainer/gemm_rate.h"
#include "trainer/plan.h"
#include "trainer/reports/page.h"
#include "trainer/reports/run_record.h"

namespace weft::trainer {

struct ReportFacts {
  const ProgramConfig& config;
  const RunRecord& done;  // since this start
  const Curve& curve;
  std::string name;
  const char* unit = "byte";
  double final_loss = 0;
  size_t ranks = 1;
  double seconds = 0;          // since this start
  double rank_seconds = 0;     // of all ranks that were there, since this start
  bool ranks_changed = false;  // some were lost or joined
  RunPlan plan;                // of rank 0
  // Of the last step that rank 0 made; nothing: it made none.
  std::optional<weft_shard_step_result_t> traffic;
  std::optional<GemmRate> gemm;  // of a rank; nothing: it was not measured
};

// Of what a rank reaches, the part of the fastest product's rate; 0: not known.
double MfuOf(const ReportFacts& facts);

// "Waiting for parameters takes 12 % of a step: ...".
std::string BottleneckOf(const ReportFacts& facts);

Page MakeRunReport(const ReportFacts& facts);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_REPORTS_RUN_REPORT_H_
