#include "tests/gpu/kernel_large.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

#include "base/status.h"
#include "base/text.h"
#include "comm/device/kernel_choice.h"
#include "comm/kernels/dtype.h"
#include "tests/comm/kernels/reference.h"
#include "tests/device/twins.h"
#include "tests/gpu/parameter_bytes.h"

namespace weft::test {
namespace {

constexpr size_t kPeriod = 1000003;  // elements; a prime
constexpr size_t kBlockBytes = 64 << 20;
constexpr uint32_t kSeed = 20261128;
constexpr int kSources = 2;

// Writes a period to the start of `to`, and copies what is there behind itself until `bytes` are full.
absl::Status FillByPeriod(GpuDevice& device, char* to, uint64_t bytes,
                          const std::vector<char>& period) {
  const uint64_t first = std::min<uint64_t>(bytes, period.size());
  WEFT_RETURN_IF_ERROR(device.CopyAndWait(to, period.data(), first));
  for (uint64_t done = first; done < bytes;) {
    const uint64_t more = std::min(done, bytes - done);  // `done` is a multiple of the period
    WEFT_RETURN_IF_ERROR(device.Copy(to + done, to, more));
    done += more;
  }
  return device.Synchronize();
}

device::ReduceParameters ParametersOf(const KernelChoice& kernel,
                                      const std::array<char*, kSources>& sources, char* destination,
                                      uint64_t count) {
  device::ReduceParameters parameters = {};
  parameters.divisor = kSources;
  parameters.source_count = kSources;
  parameters.destination_count = 1;
  std::copy(sources.begin(), sources.end(), parameters.sources);
  parameters.destinations[0] = destination;
  parameters.range = PacketsOf(kernel, parameters, count);
  return parameters;
}

// What the twin makes of one period.
std::vector<char> ReducePeriod(const KernelChoice& kernel,
                               std::array<std::vector<char>, kSources>& periods) {
  std::vector<char> result(periods[0].size());
  const device::ReduceParameters parameters =
      ParametersOf(kernel, {periods[0].data(), periods[1].data()}, result.data(), kPeriod);
  FindTwin(kernel.name)(&parameters, {.blocks = 1, .threads = 1});
  return result;
}

// The first byte that differs, or `bytes`.
absl::StatusOr<uint64_t> FirstDifference(GpuDevice& device, const char* made, uint64_t bytes,
                                         const std::vector<char>& period) {
  std::vector<char> expected(kBlockBytes + period.size());  // from any place in the period on
  for (size_t i = 0; i < expected.size(); i += period.size())
    std::memcpy(&expected[i], period.data(), std::min(period.size(), expected.size() - i));
  std::vector<char> block(kBlockBytes);
  for (uint64_t done = 0; done < bytes; done += kBlockBytes) {
    const size_t size = std::min<uint64_t>(kBlockBytes, bytes - done);
    WEFT_RETURN_IF_ERROR(device.CopyAndWait(block.data(), made + done, size));
    const char* const wanted = &expected[done % period.size()];
    if (std::memcmp(block.data(), wanted, size) == 0) continue;
    return done +
           static_cast<uint64_t>(std::mismatch(block.data(), block.data() + size, wanted).first -
                                 block.data());
  }
  return bytes;
}

absl::Status CheckType(GpuDevice& device, weft_dtype_t dtype, uint64_t count, SectionLines& lines) {
  const KernelChoice kernel = ChooseReduce(dtype, WEFT_SUM, kSources);
  const uint64_t bytes = count * DtypeSize(dtype);
  WEFT_ASSIGN_OR_RETURN(const size_t free_bytes, device.FreeBytes());
  if (free_bytes < (kSources + 1) * bytes + (64 << 20)) {
    lines.Skip("large", StrCat(kernel.name, " of ", count, " elements needs ",
                               (kSources + 1) * bytes, " bytes and ", free_bytes, " are free"));
    return absl::OkStatus();
  }
  std::mt19937_64 random(kSeed);
  std::array<std::vector<char>, kSources> periods;
  std::array<char*, kSources> sources = {};
  for (int s = 0; s < kSources; ++s) {
    periods[s] = PackElements(dtype, RandomElements(dtype, kPeriod, random));
    WEFT_ASSIGN_OR_RETURN(sources[s], device.Allocate(bytes));
    WEFT_RETURN_IF_ERROR(FillByPeriod(device, sources[s], bytes, periods[s]));
  }
  WEFT_ASSIGN_OR_RETURN(char* const made, device.Allocate(bytes));
  const device::ReduceParameters parameters = ParametersOf(kernel, sources, made, count);
  WEFT_ASSIGN_OR_RETURN(const LaunchShape shape,
                        device.Shape(kernel.image, kernel.name, parameters.range.packets));
  WEFT_RETURN_IF_ERROR(device.Launch(kernel.image, kernel.name, ParameterBytes(parameters), shape));
  WEFT_RETURN_IF_ERROR(device.Synchronize());
  WEFT_ASSIGN_OR_RETURN(const uint64_t different,
                        FirstDifference(device, made, bytes, ReducePeriod(kernel, periods)));
  if (different < bytes) {
    lines.Wrong("large", StrCat(kernel.name, " of ", count, " elements: element ",
                                different / DtypeSize(dtype), " is not that of the period"));
  } else {
    lines.Cases("large", 1, 0);
  }
  for (char* const source : sources)
    WEFT_RETURN_IF_ERROR(device.Free(source));
  return device.Free(made);
}

}  // namespace

absl::Status CheckLarge(GpuDevice& device, uint64_t count, SectionLines& lines) {
  lines.Seed(kSeed);
  for (const weft_dtype_t dtype : {WEFT_UINT8, WEFT_BFLOAT16})
    WEFT_RETURN_IF_ERROR(CheckType(device, dtype, count, lines));
  return absl::OkStatus();
}

}  // namespace weft::test
