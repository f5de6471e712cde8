// Where rank 0's findings go: the table on stdout as it grows, and the JSON file at the end, also when the run fails.
// Until then the file says that the run did not end. On other ranks it only keeps what both need.
//
// Thread-safety: used by the rank's thread only.
#ifndef WEFT_BENCH_WEFT_PERF_OUTPUT_H_
#define WEFT_BENCH_WEFT_PERF_OUTPUT_H_

#include <cstdio>
#include <string>

#include "bench/weft_perf/outcome.h"
#include "bench/weft_perf/report.h"

namespace weft::perf {

class Output {
 public:
  // `writer`: this is rank 0.
  Output(const Options& options, int argc, char** argv, bool writer);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  Report& report() { return report_; }

  // Prints on rank 0 only.
  void Print(const std::string& text) const;
  void AddRow(Row row);
  // Prints the footer and writes the JSON file, with the message of a run that failed; neither is for a process that
  // --repro started. Returns that failure, or what could not be written, on a full disk say. A reader that has gone is
  // no failure: it has seen what it wanted.
  Outcome Finish(Outcome outcome);

 private:
  void OpenJson();
  void WriteJson();  // in place of what the file holds
  Outcome Written() const;

  Report report_;
  bool writer_;
  std::FILE* json_ = nullptr;
  mutable int table_error_ = 0;  // errno of the first write that failed
  int json_error_ = 0;
};

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_OUTPUT_H_
