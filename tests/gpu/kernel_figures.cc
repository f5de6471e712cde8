#include "tests/gpu/kernel_figures.h"

#include <algorithm>

#include "base/status.h"
#include "base/text.h"
#include "comm/device/element/digest.h"
#include "comm/device/element/squares.h"
#include "comm/device/kernel_choice.h"
#include "comm/kernels/dtype.h"
#include "shard/optimizer/device/update_packets.h"
#include "shard/optimizer/optimizer_step.h"
#include "tests/device/twins.h"
#include "tests/gpu/parameter_bytes.h"

namespace weft::test {
namespace {

constexpr double kBar = 0.85;
constexpr double kSquaresBar = 0.80;
constexpr size_t kAlignment = 256;

// Kernels over one block of memory, of which each takes what it needs from the front.
class KernelFigures {
 public:
  KernelFigures(GpuDevice& device, uint64_t count, SectionLines& lines)
      : device_(device), count_(count), lines_(lines) {}

  absl::Status Measure() {
    // Nine arrays of 8 bytes per element are the most that one kernel wants; of a small device fewer.
    WEFT_ASSIGN_OR_RETURN(const size_t free_bytes, device_.FreeBytes());
    bytes_ = std::min<uint64_t>(free_bytes / 10 * 8, 9 * 8 * (count_ + kAlignment));
    WEFT_ASSIGN_OR_RETURN(memory_, device_.Allocate(bytes_));
    WEFT_RETURN_IF_ERROR(MeasureCopy());
    WEFT_RETURN_IF_ERROR(FillWithNumbers());
    WEFT_RETURN_IF_ERROR(Reductions());
    WEFT_RETURN_IF_ERROR(Casts());
    WEFT_RETURN_IF_ERROR(Optimizers());
    WEFT_RETURN_IF_ERROR(Others());
    return device_.Free(memory_);
  }

 private:
  // The next array of a figure; nullptr: there is no room.
  char* Take(uint64_t bytes) {
    const uint64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (rounded > bytes_ - taken_) return nullptr;
    char* const at = memory_ + taken_;
    taken_ += rounded;
    return at;
  }

  bool TakeAll(const std::vector<uint64_t>& sizes, std::vector<char*>& arrays) {
    taken_ = 0;
    arrays.clear();
    for (const uint64_t bytes : sizes) {
      char* const at = Take(bytes);
      if (at == nullptr) return false;
      arrays.push_back(at);
    }
    return true;
  }

  void NoRoom(const std::string& name) {
    lines_.Skip("figures", StrCat(name, " of ", count_, " elements does not fit this device"));
  }

  absl::Status MeasureCopy() {
    const uint64_t bytes = bytes_ / 2 / kAlignment * kAlignment;
    const uint64_t half = std::min<uint64_t>(bytes, count_ * 4);
    WEFT_ASSIGN_OR_RETURN(const std::vector<double> us, device_.Time({}, [&] {
      return device_.Copy(memory_ + bytes, memory_, half);
    }));
    us_per_byte_ = Median(us) / static_cast<double>(2 * half);
    lines_.Figure({.name = "copy D2D, the bound", .bytes = 2 * half, .us = us});
    return absl::OkStatus();
  }

  absl::Status Measure(const std::string& image, const std::string& name, const std::string& shown,
                       const std::vector<char>& parameters, uint64_t units, uint64_t bytes,
                       double bar, unsigned shared_bytes_per_thread = 0) {
    WEFT_ASSIGN_OR_RETURN(LaunchShape shape, device_.Shape(image, name, units));
    shape.shared_bytes = shape.threads * shared_bytes_per_thread;
    WEFT_ASSIGN_OR_RETURN(const std::vector<double> us, device_.Time({}, [&] {
      return device_.Launch(image, name, parameters, shape);
    }));
    lines_.Figure({.name = shown,
                   .bytes = bytes,
                   .us = us,
                   .bound_us = static_cast<double>(bytes) * us_per_byte_,
                   .bar = bar});
    return absl::OkStatus();
  }

  absl::Status Reduce(const std::string& shown, const KernelChoice& kernel, int source_count,
                      double bar, unsigned shared_bytes_per_thread = 0) {
    std::vector<uint64_t> sizes(static_cast<size_t>(source_count), count_ * kernel.source_bytes);
    sizes.push_back(count_ * kernel.result_bytes);
    std::vector<char*> arrays;
    if (!TakeAll(sizes, arrays)) {
      NoRoom(shown);
      return absl::OkStatus();
    }
    device::ReduceParameters parameters = {};
    parameters.divisor = source_count;
    parameters.source_count = source_count;
    parameters.destination_count = 1;
    std::copy(arrays.begin(), arrays.end() - 1, parameters.sources);
    std::fill(parameters.merges + 1, parameters.merges + source_count, uint8_t{1});  // a chain
    parameters.destinations[0] = arrays.back();
    parameters.range = PacketsOf(kernel, parameters, count_);
    uint64_t bytes = 0;
    for (const uint64_t size : sizes)
      bytes += size;
    return Measure(kernel.image, kernel.name, shown, ParameterBytes(parameters),
                   parameters.range.packets, bytes, bar, shared_bytes_per_thread);
  }

  absl::Status Reductions() {
    for (const weft_dtype_t dtype :
         {WEFT_BFLOAT16, WEFT_FLOAT16, WEFT_FLOAT32, WEFT_FLOAT8_E4M3, WEFT_INT32, WEFT_FLOAT64}) {
      for (const int source_count : {8, 2, 3}) {
        const double bar = dtype == WEFT_BFLOAT16 && source_count == 8 ? kBar : 0;
        WEFT_RETURN_IF_ERROR(Reduce(StrCat("sum of ", source_count, " ", DtypeName(dtype)),
                                    ChooseReduce(dtype, WEFT_SUM, source_count), source_count,
                                    bar));
      }
    }
    WEFT_RETURN_IF_ERROR(
        Reduce("average of 8 bfloat16", ChooseReduce(WEFT_BFLOAT16, WEFT_AVG, 8), 8, 0));
    WEFT_RETURN_IF_ERROR(
        Reduce("maximum of 8 bfloat16", ChooseReduce(WEFT_BFLOAT16, WEFT_MAX, 8), 8, 0));
    WEFT_RETURN_IF_ERROR(
        Reduce("first stage of 8 bfloat16", ChooseFirst(WEFT_BFLOAT16, WEFT_SUM, 8), 8, 0));
    return Reduce("last stage of 4 to bfloat16", ChooseMerge(WEFT_BFLOAT16, WEFT_SUM), 4, 0, 16);
  }

  absl::Status Casts() {
    const std::pair<weft_dtype_t, weft_dtype_t> kinds[] = {{WEFT_FLOAT32, WEFT_BFLOAT16},
                                                           {WEFT_BFLOAT16, WEFT_FLOAT32},
                                                           {WEFT_FLOAT32, WEFT_FLOAT8_E4M3}};
    for (const auto& [from, to] : kinds) {
      const KernelChoice kernel = ChooseCast(from, to);
      const std::string shown = StrCat("cast ", DtypeName(from), " to ", DtypeName(to));
      std::vector<char*> arrays;
      if (!TakeAll({count_ * kernel.source_bytes, count_ * kernel.result_bytes}, arrays)) {
        NoRoom(shown);
        continue;
      }
      device::CastParameters parameters = {{}, 1, arrays[0], arrays[1]};
      parameters.range = PacketsOf(kernel, parameters, count_);
      const bool wanted = from == WEFT_FLOAT32 && to == WEFT_BFLOAT16;
      WEFT_RETURN_IF_ERROR(Measure(
          kernel.image, kernel.name, shown, ParameterBytes(parameters), parameters.range.packets,
          count_ * (kernel.source_bytes + kernel.result_bytes), wanted ? kBar : 0));
    }
    return absl::OkStatus();
  }

  template <typename StepOf>
  absl::Status Update(const std::string& name, const StepOf& step, bool second, double bar) {
    const std::string shown = name + ", bfloat16 gradients and cast";
    std::vector<char*> arrays;
    if (!TakeAll({count_ * 4, count_ * 4, count_ * 4, count_ * 2, count_ * 2}, arrays)) {
      NoRoom(shown);
      return absl::OkStatus();
    }
    device::UpdateParameters<StepOf> parameters = {};
    parameters.arrays = {.weights = reinterpret_cast<float*>(arrays[0]),
                         .first_moment = reinterpret_cast<float*>(arrays[1]),
                         .second_moment = second ? reinterpret_cast<float*>(arrays[2]) : nullptr,
                         .gradients = arrays[3],
                         .gradient_dtype = WEFT_BFLOAT16,
                         .cast = arrays[4],
                         .cast_dtype = WEFT_BFLOAT16,
                         .count = count_};
    parameters.step = step;
    parameters.trust_ratio = 1;
    parameters.range = UpdatePackets(parameters.arrays);
    return Measure("update", StrCat("weft_", name, "_bfloat16"), shown, ParameterBytes(parameters),
                   parameters.range.packets, count_ * (second ? 28 : 20), bar);
  }

  absl::Status Optimizers() {
    WEFT_RETURN_IF_ERROR(FillWithNumbers());
    WEFT_RETURN_IF_ERROR(Update("adamw", MakeAdamWStep({}, 3, 1), true, kBar));
    WEFT_RETURN_IF_ERROR(Update("sgd", MakeSgdStep({.momentum = 0.9}, 1), false, 0));
    WEFT_RETURN_IF_ERROR(Update("lion", MakeLionStep({}, 1), false, 0));
    return Update("lars", MakeLarsStep({}, 1), false, 0);
  }

  // 0.01 as float32 and as bfloat16, and 1.03 as float16: numbers that are none take other ways, and zeros are not added to exact sums.
  absl::Status FillWithNumbers() {
    device::FillParameters parameters = {};
    parameters.destination = memory_;
    for (size_t i = 0; i < sizeof(parameters.pattern); ++i)
      parameters.pattern[i] = i % 2 == 0 ? 0x23 : 0x3c;
    parameters.range = PacketsOf(parameters, bytes_);
    if (filled_) {
      WEFT_ASSIGN_OR_RETURN(const LaunchShape shape,
                            device_.Shape("copy", "weft_fill", parameters.range.packets));
      return device_.Launch("copy", "weft_fill", ParameterBytes(parameters), shape);
    }
    filled_ = true;
    return Measure("copy", "weft_fill", "fill", ParameterBytes(parameters),
                   parameters.range.packets, bytes_, 0);
  }

  absl::Status Others() {
    for (const weft_dtype_t dtype : {WEFT_BFLOAT16, WEFT_FLOAT32}) {
      const std::string shown = StrCat("squares of ", DtypeName(dtype));
      const uint64_t count = count_ * 4;
      std::vector<char*> arrays;
      if (!TakeAll({count * DtypeSize(dtype), sizeof(int64_t) * (device::kExactWords + 1)},
                   arrays)) {
        NoRoom(shown);
        continue;
      }
      const device::SquaresParameters parameters = {count, 0, arrays[0],
                                                    reinterpret_cast<int64_t*>(arrays[1])};
      WEFT_RETURN_IF_ERROR(Measure(
          "squares", SquaresKernel(dtype), shown, ParameterBytes(parameters),
          count * DtypeSize(dtype) / sizeof(device::Words), count * DtypeSize(dtype), kSquaresBar));
    }
    std::vector<char*> arrays;
    const uint64_t bytes = count_ * 4;
    const uint64_t chunks = (bytes + device::kChunkBytes - 1) / device::kChunkBytes;
    if (!TakeAll({bytes, chunks * device::kDigestWords * sizeof(uint32_t)}, arrays)) {
      NoRoom("digest, leaves");
      return absl::OkStatus();
    }
    const device::ChunksParameters parameters = {arrays[0], bytes, chunks,
                                                 reinterpret_cast<uint32_t*>(arrays[1])};
    return Measure("digest", "weft_digest_chunks", "digest, leaves", ParameterBytes(parameters),
                   chunks, bytes, 0);
  }

  GpuDevice& device_;
  uint64_t count_;
  SectionLines& lines_;
  char* memory_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t taken_ = 0;
  double us_per_byte_ = 0;
  bool filled_ = false;
};

}  // namespace

absl::Status MeasureKernels(GpuDevice& device, uint64_t count, SectionLines& lines) {
  return KernelFigures(device, count, lines).Measure();
}

}  // namespace weft::test
