#include "comm/select/measure.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <sys/mman.h>

#include "comm/select/measurement.h"

namespace weft {
namespace {

constexpr size_t kSamplesMin = 3;
constexpr size_t kHotBuffers = 3;

Isa IsaOfKernels() {
  const absl::StatusOr<Isa> isa = SelectIsa();
  return isa.ok() ? *isa : BestIsa();  // a wrong WEFT_ISA is reported where groups are made
}

void PlainCopy(void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}

}  // namespace

std::optional<double> Samples::Least() const {
  if (values_.size() < kSamplesMin) return std::nullopt;
  return *std::min_element(values_.begin(), values_.end());
}

std::optional<double> Samples::LowerQuartile() const {
  if (values_.size() < kSamplesMin) return std::nullopt;
  std::vector<double> values = values_;
  const auto quartile = values.begin() + static_cast<ptrdiff_t>(values.size() / 4);
  std::nth_element(values.begin(), quartile, values.end());
  return *quartile;
}

PrivateBytes::PrivateBytes(size_t bytes) : bytes_(bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory != MAP_FAILED) data_ = static_cast<char*>(memory);
}

PrivateBytes::~PrivateBytes() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

Measurement::Measurement(const HostFacts& host, int64_t budget_ns)
    : host_(host),
      began_ns_(MonotonicNs()),
      stop_at_ns_(began_ns_ + std::clamp<int64_t>(budget_ns, 1, 10 * kMeasureBudgetNs)),
      isa_(IsaOfKernels()),
      plain_(PlainCopy),
      stream_(FindStreamCopy(isa_)),
      hot_(kHotBuffers * kHotBytes) {
  result_.model = StaticModel(host);
  result_.complete = true;
}

void Measurement::Take(double MachineModel::*field, std::optional<double> ns) {
  TakeAll({{field, ns}});
}

void Measurement::TakeAll(std::initializer_list<Number> numbers) {
  for (const Number& number : numbers) {
    const std::optional<double>& ns = number.ns;
    if (!ns || !std::isfinite(*ns) || *ns <= 0 || *ns >= kModelTimeMaxNs) return Miss();
  }
  for (const Number& number : numbers) {
    result_.model.*number.field = *number.ns;
    ++result_.measured_count;
  }
}

MeasuredModel Measurement::Result() const {
  MeasuredModel result = result_;
  result.took_ns = MonotonicNs() - began_ns_;
  return result;
}

MeasuredModel MeasureModel(const HostFacts& host, int64_t budget_ns) {
  Measurement measurement(host, budget_ns);
  if (!measurement.has_memory()) {
    measurement.Miss();
    return measurement.Result();
  }
  MeasureOneCore(measurement);
  if (host.cores >= 2) MeasureTwoCores(measurement);
  MeasureMemory(measurement);
  return measurement.Result();
}

}  // namespace weft
