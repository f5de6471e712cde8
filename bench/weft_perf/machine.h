// What weft_perf reports about the machine and how much memory it may take.
#ifndef WEFT_BENCH_WEFT_PERF_MACHINE_H_
#define WEFT_BENCH_WEFT_PERF_MACHINE_H_

#include <cstddef>
#include <string>

namespace weft::perf {

std::string HostName();   // up to the first dot
std::string HostKey();    // the same for processes that share a kernel
std::string CpuModel();   // "unknown" when /proc does not tell
std::string CpuPlace();   // "numa0:cpu1", where the caller runs now
std::string Governor();   // of CPU 0's frequency; "" when unknown
std::string TimeOfDay();  // in table.h's kTimeFormat

// Free memory of the machine or of the container, whichever is less.
size_t AvailableMemoryBytes();
// What this process holds.
double ResidentBytes();

// The largest maxbytes that `ranks_on_host` ranks can have at once: each needs `copies` buffers of
// that size, and up to 1 GiB stays free for everything else.
size_t LargestBufferBytes(size_t available_bytes, size_t ranks_on_host, size_t copies);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_MACHINE_H_
