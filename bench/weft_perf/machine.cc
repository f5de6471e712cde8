#include "bench/weft_perf/machine.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <sstream>

#include <sched.h>
#include <unistd.h>

#include "bench/weft_perf/outcome.h"
#include "bench/weft_perf/report.h"

namespace weft::perf {
namespace {

std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The text after `key` and a colon in a file of such lines; "" when absent.
std::string Field(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const size_t colon = line.find(':');
    const size_t text = line.find_first_not_of(" \t", colon + 1);
    if (colon != std::string::npos && text != std::string::npos) return line.substr(text);
  }
  return "";
}

// The number in a file; `otherwise` when there is none ("max").
size_t NumberIn(const char* path, size_t otherwise) {
  std::istringstream text(FirstLine(path));
  size_t number = 0;
  return text >> number ? number : otherwise;
}

}  // namespace

std::string HostName() {
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) != 0) return "unknown";
  const std::string text = name;
  return text.substr(0, text.find('.'));
}

std::string HostKey() {
  return HostName() + " " + FirstLine("/proc/sys/kernel/random/boot_id");
}

std::string CpuModel() {
  const std::string model = Field("/proc/cpuinfo", "model name");
  return model.empty() ? "unknown" : model;
}

std::string CpuPlace() {
  unsigned cpu = 0;
  unsigned node = 0;
  if (getcpu(&cpu, &node) != 0) return "numa0:cpu0";
  return Printf("numa%u:cpu%u", node, cpu);
}

std::string Governor() {
  return FirstLine("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
}

std::string TimeOfDay() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  char text[64] = "";
  std::strftime(text, sizeof(text), kTimeFormat, &local);
  return text;
}

size_t AvailableMemoryBytes() {
  std::istringstream text(Field("/proc/meminfo", "MemAvailable"));
  size_t kilobytes = 0;
  size_t available = text >> kilobytes ? kilobytes * 1024 : SIZE_MAX;
  const size_t limit = NumberIn("/sys/fs/cgroup/memory.max", SIZE_MAX);
  if (limit != SIZE_MAX) {
    const size_t used = NumberIn("/sys/fs/cgroup/memory.current", 0);
    available = std::min(available, limit > used ? limit - used : 0);
  }
  return available;
}

double ResidentBytes() {
  std::istringstream text(FirstLine("/proc/self/statm"));
  double total = 0;
  double resident = 0;
  text >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

size_t LargestBufferBytes(size_t available_bytes, size_t ranks_on_host, size_t copies) {
  const size_t reserve = std::min<size_t>(size_t{1} << 30, available_bytes / 4);
  return (available_bytes - reserve) / ranks_on_host / copies;
}

}  // namespace weft::perf
