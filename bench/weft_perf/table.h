// The text that weft_perf prints, column by column that of nccl-tests: tools count columns from the
// right, so none is ever inserted. All functions return whole lines.
#ifndef WEFT_BENCH_WEFT_PERF_TABLE_H_
#define WEFT_BENCH_WEFT_PERF_TABLE_H_

#include <cstdint>
#include <string>

#include "bench/weft_perf/report.h"

namespace weft::perf {

inline constexpr char kTimeFormat[] = "%Y-%m-%d %H:%M:%S";

// With as many decimals as fit into `width`: 12.34, 12345.6, 1234567, 1.2e+07.
std::string ShrinkFloat(double value, int width);

// "#  Rank  0 Group  0 Pid   4711 on   hostname device  0 [numa0:cpu1] model"
std::string DeviceLine(const Device& device);

// From the version to the devices.
std::string PreambleText(const Report& report);

// The three lines above the numbers.
std::string HeaderText(const Options& options);

std::string RowText(const Row& row, const Options& options);

// From "Out of bounds values" on.
std::string FooterText(const Report& report);

// One part of the memory line (-M) and how it is written: "1.50 GB".
std::string MemoryText(double bytes);
std::string MemoryLine(double initialisation, double buffers, double collective);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_TABLE_H_
