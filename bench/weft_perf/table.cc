// The table of report.h. Columns, widths and rounding are those of nccl-tests, so that scripts which read its tables can read
// this one. What weft adds stands in lines that begin with #, which they skip.
#include <cmath>

#include "bench/weft_perf/report.h"

namespace weft::perf {
namespace {

const char* TimeTitle(const Options& options) {
  return options.cpu_time ? "cputime" : "time";
}

std::string CellTitles(const char* time, const char* algorithm, const char* bus, const char* wrong,
                       bool per_iteration) {
  std::string text = Printf("  %7s  %6s  %6s  %6s", time, algorithm, bus, wrong);
  if (!per_iteration) return text;
  const bool units = *wrong == '\0';
  return text + Printf("  %7s  %7s  %7s  %7s", units ? "(us)" : "i_min", units ? "(us)" : "i_max",
                       units ? "(us)" : "i_p99", units ? "(%)" : "i_cv%");
}

std::string CellText(const Cell& cell) {
  std::string text = Printf("  %7s  %6s  %6s", ShrinkFloat(cell.time_us, 7).c_str(),
                            ShrinkFloat(cell.bandwidth.algorithm, 6).c_str(),
                            ShrinkFloat(cell.bandwidth.bus, 6).c_str());
  text += cell.wrong.has_value() ? Printf("  %6g", *cell.wrong) : "    N/A";
  if (!cell.iterations.has_value()) return text;
  const IterationSummary& summary = cell.iterations->summary;
  for (const double value : {summary.min, summary.max, summary.p99, summary.variation_percent()}) {
    text += Printf("  %7s", ShrinkFloat(value, 7).c_str());
  }
  return text;
}

const char* BlockingLine(Blocking blocking) {
  switch (blocking) {
    case Blocking::kNone:
      break;
    case Blocking::kWaitAndBarrier:
      return "# Blocking Enabled: wait for completion and barrier after each collective\n";
    case Blocking::kWait:
      return "# Blocking Enabled: wait for completion after each collective\n";
    case Blocking::kBarrierOutsideTime:
      return "# Blocking Enabled: wait for completion and untimed barrier after each iteration\n";
  }
  return "";
}

std::string BuffersLine(const Options& o) {
  const std::string rotation = o.hot ? "the same in every iteration (hot)"
                                     : Printf("rotating within %zu bytes", o.max_bytes);
  return Printf("# Buffers: %s, %s%s\n", rotation.c_str(), MemoryName(o.memory),
                o.asynchronous ? ", asynchronous" : "");
}

std::string Share(const Cell& cell, double limit) {
  if (limit <= 0) return Printf("  %8s  %7s", "-", "-");
  return Printf("  %8.2f  %6.1f%%", limit, cell.bandwidth.bus / limit * 100);
}

}  // namespace

std::string ShrinkFloat(double value, int width) {
  int digits = 0;
  for (double limit = 1; value >= limit && digits <= width; limit *= 10)
    ++digits;
  if (digits < width - 2) return Printf("%*.2f", width, value);
  if (digits < width - 1) return Printf("%*.1f", width, value);
  if (digits <= width) return Printf("%*.0f", width, value);
  return width >= 7 ? Printf("%*.1e", width, value) : Printf("%*.0e", width, value);
}

std::string DeviceLine(const Device& device) {
  return Printf("#  Rank %2d Group %2d Pid %6d on %10s device %2d [%s] %s\n", device.rank,
                device.group, device.pid, device.host.c_str(), device.device, device.place.c_str(),
                device.model.c_str());
}

std::string PreambleText(const Report& report) {
  const Options& o = report.options;
  const bool factor = o.step_factor > 1;
  std::string text = Printf("# weft_perf version %s weft-headers=%d weft-library=%d\n",
                            report.version.c_str(), report.header_version, report.library_version);
  text += Printf("# Collective test starting: %s\n", o.operation->perf_name().c_str());
  text += Printf(
      "# nThread %d nGpus %d minBytes %zu maxBytes %zu step: %zu(%s) warmup iters: %d "
      "iters: %d agg iters: %d validation: %d graph: %d unalign: %zu\n",
      o.threads, o.ranks_per_thread, o.min_bytes, o.max_bytes,
      factor ? o.step_factor : o.step_bytes, factor ? "factor" : "bytes", o.warmup, o.iterations,
      o.aggregated, o.checks, 0, o.unalign);
  text += BlockingLine(o.blocking);
  if (o.parallel_init != 0) text += "# Parallel Init Enabled: ranks start concurrently\n";
  if (o.repro) {
    text += "# Reproducibility: hashes of results, no times\n";
  } else {
    text += BuffersLine(o);
  }
  text += "#\n# Using devices\n";
  for (const Device& device : report.devices)
    text += DeviceLine(device);
  return text;
}

std::string HeaderText(const Options& options) {
  const bool stamps = options.timestamps;
  const bool singles = options.per_iteration;
  const int pad = stamps ? 19 : 0;
  const char* time = TimeTitle(options);
  std::string text = "#\n";
  text += Printf(
      "# %10s  %12s  %8s  %6s  %6s           out-of-place           %s            "
      "in-place          \n",
      "", "", "", "", "", singles ? Printf("%36s", "").c_str() : "");
  std::string titles = CellTitles(time, "algbw", "busbw", "#wrong", singles);
  text += Printf("# %10s  %12s  %8s  %6s  %6s%s%s %*s\n", "size", "count", "type", "redop", "root",
                 titles.c_str(), titles.c_str(), pad, stamps ? "timestamp" : "");
  titles = CellTitles("(us)", "(GB/s)", "(GB/s)", "", singles);
  text += Printf("# %10s  %12s  %8s  %6s  %6s%s%s %*s\n", "(B)", "(elements)", "", "", "",
                 titles.c_str(), titles.c_str(), pad, stamps ? kTimeFormat : "");
  return text;
}

std::string RowText(const Row& row, const Options& options) {
  std::string text = Printf("%12zu  %12zu  %8s  %6s  %6d", row.bytes, row.count, row.type.c_str(),
                            row.reduction.c_str(), row.root);
  text += CellText(row.out_of_place);
  text += CellText(row.in_place);
  if (options.timestamps) text += Printf("%21s", row.time_of_day.c_str());
  return text + "\n";
}

std::string FooterText(const Report& report) {
  std::string text;
  if (report.totals.has_value()) {
    const Totals& totals = *report.totals;
    const char* verdict = totals.slow() ? "FAILED" : "OK";
    text += Printf("# %-20s : %d %s\n", "Out of bounds values", totals.out_of_bounds,
                   totals.out_of_bounds != 0 ? "FAILED" : "OK");
    text += Printf("# %-20s : %g %s\n", "Avg bus bandwidth", totals.bus_bandwidth,
                   totals.least_bandwidth == -1 ? "" : verdict);
    for (size_t i = 0; i < totals.group_bandwidths.size(); ++i) {
      const RankGroup& group = report.groups[i];
      text += Printf("# Group %2d, %3zu ranks   : %g\n", group.color, group.ranks.size(),
                     totals.group_bandwidths[i]);
    }
    text += "#\n";
  }
  text +=
      Printf("# Collective test concluded: %s\n", report.options.operation->perf_name().c_str());
  for (const std::string& error : report.errors)
    text += "# error: " + error + "\n";
  return text + "#\n";
}

std::string MemoryText(double bytes) {
  const char* unit = "B";
  for (const char* larger : {"KB", "MB", "GB"}) {
    if (std::fabs(bytes) < 1024) break;
    bytes /= 1024;
    unit = larger;
  }
  const double magnitude = std::fabs(bytes);
  return Printf("%.*f %s", magnitude < 10 ? 2 : (magnitude < 100 ? 1 : 0), bytes, unit);
}

std::string MemoryLine(double initialisation, double buffers, double collective) {
  return Printf("# %-20s : Initialization %s | User-Allocated %s | Collective %s | Total  %s\n",
                "CPU memory usage", MemoryText(initialisation).c_str(), MemoryText(buffers).c_str(),
                MemoryText(collective).c_str(),
                MemoryText(initialisation + buffers + collective).c_str());
}

std::string BoundHeader() {
  return Printf(
      "#\n# bound: best bus bandwidth that the measured copy rate of all ranks allows\n"
      "# bound %12s  %8s  %8s  %7s  %8s  %7s\n# bound %12s  %8s  %8s  %7s  %8s  %7s\n",
      "size", "memcpy", "out-of-p", "reached", "in-place", "reached", "(B)", "(GB/s)", "(GB/s)", "",
      "(GB/s)", "");
}

std::string BoundLine(const Row& row, const Operation& operation, size_t ranks, bool symmetric,
                      double copy_rate) {
  std::string text = Printf("# bound %12zu  %8.2f", row.bytes, copy_rate);
  text += Share(row.out_of_place,
                copy_rate * BoundFraction(operation.kind, ranks, symmetric, /*in_place=*/false));
  text += Share(row.in_place,
                copy_rate * BoundFraction(operation.kind, ranks, symmetric, /*in_place=*/true));
  return text + "\n";
}

}  // namespace weft::perf
