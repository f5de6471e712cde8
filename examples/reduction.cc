// Reductions of your own: the softmax of a vocabulary that is cut among the ranks, and an average by weight.
//
// log(exp(a) + exp(b)) is associative, so it can be a reduction like any other: all_reduce makes of each rank's part the
// logarithm of the sum over all. PremulSum multiplies what each rank gives by a number of its own.
//
//   $ c++ -std=c++17 reduction.cc -o reduction $(pkg-config --cflags --libs weft)
//   $ weftrun -n 2 ./reduction
//   [0] log of the sum of exponentials: 3.6685 103.6685 1003.6685; alone: 3.6685 103.6685 1003.6685
//   [0] average of 3 samples: 0.667
//   $ weftrun -n 3 ./reduction
//   [0] log of the sum of exponentials: 3.6685 103.6685 1003.6685; alone: 3.6685 103.6685 1003.6685
//   [0] average of 6 samples: 1.333
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include <weft/weft.hpp>

constexpr int kRows = 3, kVocabulary = 30;

// The logit of word v in row r; large, so that its exponential alone would be infinite.
static double Logit(int r, int v) {
  return (r == 0 ? 0 : std::pow(10, r + 1)) + std::sin(v);
}

static double LogAddExp(double a, double b) {
  return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

// Of words first, first + every, ...
static double LogSumExp(int r, int first, int every) {
  double sum = Logit(r, first);
  for (int v = first + every; v < kVocabulary; v += every)
    sum = LogAddExp(sum, Logit(r, v));
  return sum;
}

static void Run() {
  const weft::Group group = weft::Group::FromEnvironment();
  const int rank = group.Rank(), size = group.Size();

  // The name is compared between ranks, so that all of them reduce by the same function.
  const weft::Op log_add_exp = weft::Op::Of<double>("log_add_exp", LogAddExp);
  std::vector<double> sums(kRows);
  for (int r = 0; r < kRows; ++r)
    sums[r] = LogSumExp(r, rank, size);
  group.AllReduce(sums.data(), sums.data(), sums.size(), log_add_exp);
  if (rank == 0)
    std::printf("log of the sum of exponentials: %.4f %.4f %.4f; alone: %.4f %.4f %.4f\n", sums[0],
                sums[1], sums[2], LogSumExp(0, 0, 1), LogSumExp(1, 0, 1), LogSumExp(2, 0, 1));

  // Rank r has r + 1 samples; their average is r.
  int samples = rank + 1;
  group.AllReduce(&samples, &samples, 1, WEFT_SUM);
  const weft::Op weighted = weft::Op::PremulSum(static_cast<double>(rank + 1) / samples);
  double average = rank;
  group.AllReduce(&average, &average, 1, weighted);
  if (rank == 0) std::printf("average of %d samples: %.3f\n", samples, average);
}

int main() {
  try {
    Run();
    return 0;
  } catch (const weft::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
