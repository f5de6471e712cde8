// Copies by the twins of the kernels of devices: conversions against the conversions of the CPU, pieces and patterns against memcpy.
#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "comm/device/element/copy.h"
#include "comm/device/kernel_choice.h"
#include "comm/kernels/dtype.h"
#include "tests/comm/kernels/reference.h"
#include "tests/device/twins.h"

namespace weft::test::twin_copy_test {
namespace {

constexpr weft_dtype_t kFloatingTypes[] = {WEFT_FLOAT32,  WEFT_FLOAT64,     WEFT_FLOAT16,
                                           WEFT_BFLOAT16, WEFT_FLOAT8_E4M3, WEFT_FLOAT8_E5M2};

// Slow and plain: the value, times the factor in float64, to float32, to the type.
uint64_t CastReference(weft_dtype_t from, weft_dtype_t to, uint64_t bits, double factor) {
  const double value =
      from == WEFT_FLOAT64 ? std::bit_cast<double>(bits) : double{DecodeFloat(from, bits)};
  const double product = factor == 1 ? value : value * factor;
  if (product != product) return QuietNan(to);
  if (to == WEFT_FLOAT64) return std::bit_cast<uint64_t>(product);
  return EncodeFloat(to, static_cast<float>(product));
}

TEST(TwinCast, HasTheBitsOfTheReference) {
  std::mt19937_64 random(TestSeed());
  for (const weft_dtype_t from : kFloatingTypes) {
    Elements elements = SpecialElements(from);
    const Elements more = RandomElements(from, 300, random);
    elements.insert(elements.end(), more.begin(), more.end());
    const std::vector<char> packed = PackElements(from, elements);
    for (const weft_dtype_t to : kFloatingTypes) {
      const KernelChoice kernel = ChooseCast(from, to);
      const Twin twin = FindTwin(kernel.name);
      ASSERT_NE(twin, nullptr) << kernel.name;
      for (const double factor : {1.0, 0.37, 65536.0}) {
        Elements expected;
        for (const uint64_t bits : elements)
          expected.push_back(CastReference(from, to, bits, factor));
        const std::vector<char> bytes = PackElements(to, expected);
        for (const size_t shift : {size_t{0}, size_t{1}}) {
          std::vector<char> source(packed.size() + 64);
          std::vector<char> result(bytes.size() + 64, 'x');
          char* const begin = source.data() + shift * DtypeSize(from);
          char* const end = result.data() + shift * DtypeSize(to);
          std::memcpy(begin, packed.data(), packed.size());
          device::CastParameters parameters = {{}, factor, begin, end};
          parameters.range = PacketsOf(kernel, parameters, elements.size());
          twin(&parameters, {.blocks = 1, .threads = 3});
          ASSERT_EQ(std::memcmp(end, bytes.data(), bytes.size()), 0)
              << kernel.name << " times " << factor << ", " << shift
              << " elements off, --gtest_random_seed=" << TestSeed();
          ASSERT_EQ(std::count(end + bytes.size(), result.data() + result.size(), 'x'),
                    result.data() + result.size() - (end + bytes.size()));
        }
      }
    }
  }
}

TEST(TwinPieces, AreGatheredAndScattered) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 60; ++round) {
    const int count = 1 + static_cast<int>(random() % device::kPiecesMax);
    device::PiecesParameters parameters = {};
    parameters.piece_count = count;
    std::vector<std::vector<char>> pieces;
    std::vector<char> expected;
    const size_t unit = size_t{1} << random() % 5;  // so that some are aligned
    for (int piece = 0; piece < count; ++piece) {
      parameters.begins[piece] = expected.size();
      pieces.emplace_back(random() % 9 * unit + 16);
      std::generate(pieces.back().begin(), pieces.back().end(),
                    [&] { return static_cast<char>(random()); });
      const size_t bytes = pieces.back().size() - 16;
      expected.insert(expected.end(), pieces.back().begin(),
                      pieces.back().begin() + static_cast<ptrdiff_t>(bytes));
      parameters.pieces[piece] = pieces.back().data();
    }
    parameters.begins[count] = expected.size();
    std::vector<char> block(expected.size() + 16, 'x');
    parameters.block = block.data();
    FindTwin("weft_gather")(&parameters, {.blocks = 1, .threads = 5});
    ASSERT_EQ(std::memcmp(block.data(), expected.data(), expected.size()), 0)
        << count << " pieces, --gtest_random_seed=" << TestSeed();
    ASSERT_EQ(std::count(block.begin() + static_cast<ptrdiff_t>(expected.size()), block.end(), 'x'),
              16);
    const std::vector<std::vector<char>> before = pieces;
    for (int piece = 0; piece < count; ++piece)
      std::fill_n(pieces[static_cast<size_t>(piece)].begin(),
                  pieces[static_cast<size_t>(piece)].size() - 16, 'y');
    FindTwin("weft_scatter")(&parameters, {.blocks = 2, .threads = 3});
    ASSERT_EQ(pieces, before) << count << " pieces, --gtest_random_seed=" << TestSeed();
  }
}

TEST(TwinFill, RepeatsThePatternFromTheFirstByte) {
  device::FillParameters parameters = {};
  for (size_t i = 0; i < 16; ++i)
    parameters.pattern[i] = static_cast<uint8_t>(i * 17 + 1);
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{15}, size_t{16}, size_t{17}, size_t{333}}) {
    for (size_t shift = 0; shift < 16; ++shift) {
      std::vector<char> memory(bytes + 64, 'x');
      parameters.destination = memory.data() + shift;
      parameters.range = PacketsOf(parameters, bytes);
      FindTwin("weft_fill")(&parameters, {.blocks = 1, .threads = 4});
      for (size_t i = 0; i < bytes; ++i)
        ASSERT_EQ(static_cast<uint8_t>(memory[shift + i]), parameters.pattern[i % 16]) << i;
      ASSERT_EQ(std::count(memory.begin(), memory.end(), 'x'),
                static_cast<ptrdiff_t>(
                    64 + std::count(memory.begin() + static_cast<ptrdiff_t>(shift),
                                    memory.begin() + static_cast<ptrdiff_t>(shift + bytes), 'x')));
    }
  }
}

}  // namespace
}  // namespace weft::test::twin_copy_test
