// Casts, lists of pieces, patterns and digests.
#include <algorithm>

#include "base/text.h"
#include "comm/device/element/copy.h"
#include "comm/device/element/digest.h"
#include "comm/kernels/dtype.h"
#include "tests/gpu/kernel_cases.h"
#include "tests/gpu/parameter_bytes.h"

namespace weft::test {

void KernelCases::Casts(const Take& take) {
  for (const weft_dtype_t from : kDtypes) {
    for (const weft_dtype_t to : kDtypes) {
      const KernelChoice kernel = ChooseCast(from, to);
      if (kernel.name.empty()) continue;
      for (int round = 0; round < 4 * options_.rounds; ++round) {
        constexpr double kFactors[] = {1, 0.37, 65536, 1e-30};
        const double factor = kFactors[Draw(std::size(kFactors))];
        const size_t count = DrawCount(1);
        const int shift_kind = static_cast<int>(Draw(3));
        KernelCase one;
        one.check = "cast";
        one.kernel = kernel.name;
        DrawLaunch(one);
        const size_t source =
            one.arena.Add(DrawElements(from, count), DrawShift(shift_kind) * kernel.source_bytes);
        const size_t result = one.arena.Add(std::vector<char>(count * kernel.result_bytes),
                                            DrawShift(shift_kind) * kernel.result_bytes);
        one.what = StrCat(count, " elements, shifts ", shift_kind, ", factor ", factor);
        const Arena arena = one.arena;
        one.parameters = [=](char* base) {
          device::CastParameters parameters = {
              {}, factor, arena.At(base, source), arena.At(base, result)};
          parameters.range = PacketsOf(kernel, parameters, count);
          return ParameterBytes(parameters);
        };
        take(one);
      }
    }
  }
}

void KernelCases::Pieces(const Take& take) {
  for (int round = 0; round < 20 * options_.rounds; ++round) {
    const bool gather = Draw(2) == 0;
    KernelCase one;
    one.check = "pieces";
    one.kernel = gather ? "weft_gather" : "weft_scatter";
    DrawLaunch(one);
    const auto count = static_cast<int>(1 + Draw(device::kPiecesMax));
    const size_t unit = size_t{1} << Draw(5);  // so that some are aligned
    std::vector<size_t> pieces;
    std::vector<uint64_t> begins;
    size_t bytes = 0;
    for (int piece = 0; piece < count; ++piece) {
      const size_t of_piece = Draw(9) * unit;
      pieces.push_back(one.arena.Add(DrawBytes(of_piece), Draw(3) * unit));
      begins.push_back(bytes);
      bytes += of_piece;
    }
    begins.push_back(bytes);
    const size_t block = one.arena.Add(DrawBytes(bytes), Draw(3) * unit);
    one.what = StrCat(count, " pieces of multiples of ", unit);
    const Arena arena = one.arena;
    one.parameters = [=](char* base) {
      device::PiecesParameters parameters = {};
      parameters.block = arena.At(base, block);
      parameters.piece_count = count;
      for (size_t i = 0; i < pieces.size(); ++i)
        parameters.pieces[i] = arena.At(base, pieces[i]);
      std::copy(begins.begin(), begins.end(), parameters.begins);
      return ParameterBytes(parameters);
    };
    take(one);
  }
}

void KernelCases::Fills(const Take& take) {
  for (int round = 0; round < 20 * options_.rounds; ++round) {
    KernelCase one;
    one.check = "fill";
    one.kernel = "weft_fill";
    DrawLaunch(one);
    const size_t bytes = DrawCount(1);
    const size_t shift = Draw(16);
    const std::vector<char> pattern = DrawBytes(16);
    const size_t destination = one.arena.Add(std::vector<char>(bytes), shift);
    one.what = StrCat(bytes, " bytes, ", shift, " off");
    const Arena arena = one.arena;
    one.parameters = [=](char* base) {
      device::FillParameters parameters = {};
      parameters.destination = arena.At(base, destination);
      std::copy(pattern.begin(), pattern.end(), reinterpret_cast<char*>(parameters.pattern));
      parameters.range = PacketsOf(parameters, bytes);
      return ParameterBytes(parameters);
    };
    take(one);
  }
}

void KernelCases::Digests(const Take& take) {
  constexpr size_t kValueBytes = device::kDigestWords * sizeof(uint32_t);
  for (int round = 0; round < 10 * options_.rounds; ++round) {
    KernelCase one;
    one.check = "digest";
    one.kernel = "weft_digest_chunks";
    DrawLaunch(one);
    const size_t bytes = options_.small ? Draw(3000) : Draw(200) * 1000 + Draw(1000);
    const size_t shift = Draw(2) * Draw(17);
    const size_t chunks =
        std::max<size_t>(1, (bytes + device::kChunkBytes - 1) / device::kChunkBytes);
    const size_t input = one.arena.Add(DrawBytes(bytes), shift);
    const size_t values = one.arena.Add(std::vector<char>(chunks * kValueBytes), 0);
    one.what = StrCat(bytes, " bytes, ", shift, " off");
    const Arena arena = one.arena;
    one.parameters = [=](char* base) {
      return ParameterBytes(
          device::ChunksParameters{arena.At(base, input), bytes, chunks,
                                   reinterpret_cast<uint32_t*>(arena.At(base, values))});
    };
    take(one);

    KernelCase parents;
    parents.check = "digest";
    parents.kernel = "weft_digest_parents";
    DrawLaunch(parents);
    const size_t count = 2 + Draw(500);
    const size_t from = parents.arena.Add(DrawBytes(count * kValueBytes), 0);
    const size_t to = parents.arena.Add(std::vector<char>((count + 1) / 2 * kValueBytes), 0);
    parents.what = StrCat(count, " values");
    const Arena of_parents = parents.arena;
    parents.parameters = [=](char* base) {
      return ParameterBytes(
          device::ParentsParameters{reinterpret_cast<const uint32_t*>(of_parents.At(base, from)),
                                    reinterpret_cast<uint32_t*>(of_parents.At(base, to)), count});
    };
    take(parents);
  }
}

}  // namespace weft::test
