// The order in which kernels of devices add, by a witness that is none of the kernels: the hashes of weft_perf --repro, whose inputs show
// that order (docs/weft_perf.md). Its ranks are processes, on one node and on several.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "bench/weft_perf/pattern.h"
#include "bench/weft_perf/repro.h"
#include "comm/device/kernel_choice.h"
#include "tests/device/twins.h"

namespace weft::test {
namespace {

using perf::ElementType;
using perf::Reduction;

constexpr size_t kBytes = 4096;

struct World {
  int ranks;
  const char* nodes;  // of WEFT_FAKE_NODES
};

// As bits of the type that sums are formed in.
uint64_t FactorBits(const ElementType& type, int rank) {
  const int factor = perf::PremulFactor(static_cast<size_t>(rank));
  if (type.format != perf::Format::kFloat) return static_cast<uint64_t>(factor);
  if (type.dtype == WEFT_FLOAT64) return std::bit_cast<uint64_t>(static_cast<double>(factor));
  return std::bit_cast<uint32_t>(static_cast<float>(factor));
}

// Of an all_reduce of what the ranks of weft_perf have, by one kernel.
std::string HashByTwin(const ElementType& type, const Reduction& reduction, int ranks) {
  const weft_op_t op = perf::IsPremulSum(reduction) ? kOpPremulSum : reduction.op;
  const KernelChoice choice = ChooseReduce(type.dtype, op, ranks);
  const Twin twin = FindTwin(choice.name);
  if (twin == nullptr) return StrCat("no kernel ", choice.name);
  const size_t count = kBytes / type.size;
  const perf::DataKey key = {.type = &type,
                             .reduction = &reduction,
                             .ranks = static_cast<size_t>(ranks),
                             .seed = perf::kReproSeed,
                             .length = count};
  std::vector<std::vector<unsigned char>> inputs(static_cast<size_t>(ranks));
  std::vector<unsigned char> result(kBytes);
  device::ReduceParameters parameters = {};
  parameters.divisor = ranks;
  parameters.source_count = ranks;
  parameters.destination_count = 1;
  parameters.destinations[0] = result.data();
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<unsigned char>& input = inputs[static_cast<size_t>(rank)];
    input.resize(kBytes);
    perf::Pattern::OrderSensitive(key, static_cast<size_t>(rank)).Fill(input.data(), 0, count);
    parameters.sources[rank] = input.data();
    parameters.factors[rank] = FactorBits(type, rank);
  }
  parameters.range = PacketsOf(choice, parameters, count);
  twin(&parameters, {});
  const std::span<const unsigned char> whole = result;
  return perf::HashText({&whole, 1});
}

std::string RunWeftPerf(const World& world) {
  const std::string command = StrCat(
      "WEFT_ISA=scalar WEFT_TRANSPORT=tcp WEFT_FAKE_NODES=", world.nodes, " ", WEFT_PERF,
      " all_reduce -b ", kBytes, " -e ", kBytes, " -d all -o all --repro --nprocs ", world.ranks);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), &pclose);
  std::string output;
  char buffer[4096];
  while (pipe != nullptr && std::fgets(buffer, sizeof(buffer), pipe.get()) != nullptr)
    output += buffer;
  return output;
}

class TwinRepro : public testing::TestWithParam<World> {};

TEST_P(TwinRepro, HasTheHashesOfRanks) {
  const std::string output = RunWeftPerf(GetParam());
  size_t found = 0;
  for (size_t begin = 0; begin < output.size(); begin = output.find('\n', begin) + 1) {
    char type[16];
    char reduction[16];
    char hash[17];
    if (std::sscanf(output.c_str() + begin, "%*u %*u %15s %15s -1 %16s", type, reduction, hash) !=
        3)
      continue;
    ++found;
    EXPECT_EQ(
        HashByTwin(*perf::FindElementType(type), *perf::FindReduction(reduction), GetParam().ranks),
        hash)
        << reduction << " of " << type;
  }
  EXPECT_EQ(found, perf::ElementTypes().size() * perf::Reductions().size()) << output;
}

INSTANTIATE_TEST_SUITE_P(Worlds, TwinRepro,
                         testing::Values(World{2, "1"}, World{3, "1"}, World{7, "1"}, World{8, "1"},
                                         World{4, "0,1,0,1"}, World{5, "2"}),
                         [](const auto& info) {
                           std::string nodes = info.param.nodes;
                           std::replace(nodes.begin(), nodes.end(), ',', '_');
                           return StrCat("Ranks", info.param.ranks, "Nodes", nodes);
                         });

}  // namespace
}  // namespace weft::test
