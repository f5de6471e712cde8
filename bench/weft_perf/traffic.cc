// nccl-tests' variables are read as it reads them: what is no number is ignored, and what is out of range is put into it. Only
// a matrix is judged strictly, because ranks that read different amounts would wait for each other. Amounts are multiples of
// 16 bytes and so of every element.
#include "bench/weft_perf/traffic.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "bench/weft_perf/operation.h"

namespace weft::perf {
namespace {

constexpr size_t kAlignment = 16;
constexpr size_t kMatrixBytesMax = 64 << 20;

size_t Aligned(double bytes) {
  return static_cast<size_t>(bytes) & ~(kAlignment - 1);
}

// The variable's number; `otherwise` when it is unset or is no number.
double NumberOr(const Lookup& lookup, const char* name, double otherwise) {
  const char* text = lookup(name);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  errno = 0;
  const double number = std::strtod(text, &end);
  const bool readable = end != text && *end == '\0' && errno != ERANGE && !std::isnan(number);
  return readable ? number : otherwise;
}

Outcome Unusable(const std::string& name, const std::string& why) {
  return Fail(ExitCode::kInternal,
              Printf("NCCL_TESTS_ALLTOALLV_MATRIX_FILE=%s %s", name.c_str(), why.c_str()));
}

// All of a regular file: a FIFO would be waited for, and a device may have no end.
Outcome ReadMatrixFile(const char* path, std::string* text) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error) && !error) {
    return Unusable(path, "is not a regular file");
  }
  std::ifstream file(path, std::ios::binary);
  char buffer[65536];
  while (file) {
    file.read(buffer, sizeof(buffer));
    text->append(buffer, static_cast<size_t>(file.gcount()));
    if (text->size() > kMatrixBytesMax) {
      return Unusable(
          path, Printf("has more than %zu bytes; it takes a square of numbers", kMatrixBytesMax));
    }
  }
  if (file.eof()) return {};
  return Unusable(path, Printf("cannot be read: %s", std::strerror(errno)));
}

// One number of the matrix, scaled; false when it is none.
bool ParseAmount(const std::string& word, double scale, size_t* bytes) {
  char* end = nullptr;
  const double number = std::strtod(word.c_str(), &end);
  if (end == word.c_str() || *end != '\0' || !std::isfinite(number) || number < 0) return false;
  const double scaled = number * scale;
  if (!(scaled < static_cast<double>(PTRDIFF_MAX))) return false;
  *bytes = Aligned(scaled);
  return true;
}

}  // namespace

Outcome Traffic::FromMatrix(const std::string& text, const std::string& name, double scale,
                            Traffic* traffic) {
  std::vector<size_t> amounts;
  size_t rows = 0;
  size_t columns = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    const size_t before = amounts.size();
    for (std::string word; words >> word;) {
      size_t bytes = 0;
      if (!ParseAmount(word, scale, &bytes)) {
        return Unusable(name, Printf("has \"%s\" in row %zu, column %zu; it takes bytes, 0 or more",
                                     word.c_str(), rows + 1, amounts.size() - before + 1));
      }
      amounts.push_back(bytes);
    }
    const size_t found = amounts.size() - before;
    if (found == 0) continue;
    if (rows == 0) columns = found;
    ++rows;
    if (found != columns) {
      return Unusable(
          name, Printf("has %zu numbers in row %zu and %zu in the first", found, rows, columns));
    }
  }
  if (rows == 0) return Unusable(name, "holds no numbers");
  if (rows != columns) {
    return Unusable(name, Printf("must be square; it has %zu rows and %zu columns", rows, columns));
  }
  traffic->name_ = name;
  traffic->scale_ = scale;
  traffic->dimension_ = rows;
  traffic->bytes_ = std::move(amounts);
  return {};
}

Outcome Traffic::FromEnvironment(const Lookup& lookup, Traffic* traffic) {
  const double spread = NumberOr(lookup, "NCCL_TESTS_ALLTOALLV_SPREAD", 1);
  traffic->spread_ = std::clamp(spread, 0.0, 1.0);
  const char* summary = lookup("NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY");
  traffic->print_summary_ = summary != nullptr && std::atoi(summary) != 0;
  const char* path = lookup("NCCL_TESTS_ALLTOALLV_MATRIX_FILE");
  if (path == nullptr) return {};
  std::string text;
  if (Outcome found = ReadMatrixFile(path, &text); !found.ok()) return found;
  const double scale = NumberOr(lookup, "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", 1);
  return FromMatrix(text, path, std::max(scale, 0.0), traffic);
}

Outcome Traffic::Check(size_t ranks, size_t min_bytes, size_t max_bytes) const {
  if (!from_matrix()) return {};
  if (ranks > dimension_) {
    return Unusable(name_,
                    Printf("is for %zu ranks at most, and there are %zu", dimension_, ranks));
  }
  if (min_bytes != max_bytes) {
    return Unusable(name_, "has the sizes of one operation; give -b and -e the same value");
  }
  const Amount largest = LargestOf(ranks, 0);
  const size_t needed = std::max(largest.send_bytes, largest.recv_bytes);
  if (needed <= max_bytes) return {};
  return Unusable(name_, Printf("needs buffers of %zu bytes; give -b and -e at least that instead "
                                "of %zu",
                                needed, max_bytes));
}

size_t Traffic::Bytes(size_t from, size_t to, size_t ranks, size_t total_bytes) const {
  if (from_matrix()) {
    return bytes_[from * dimension_ + to];
  }
  const double total = total_bytes;
  if (ranks == 1) return total_bytes & ~(kAlignment - 1);
  const double n = ranks;
  const double distance = (to + ranks - from) % ranks;
  const double equal_share = total / n;
  const double distance_share = distance * total / (n * (n - 1) / 2);
  return Aligned((1 - spread_) * equal_share + spread_ * distance_share);
}

Traffic::Amount Traffic::Of(size_t rank, size_t ranks, size_t total_bytes) const {
  Amount amount;
  for (size_t peer = 0; peer < ranks; ++peer) {
    amount.send_bytes += Bytes(rank, peer, ranks, total_bytes);
    amount.recv_bytes += Bytes(peer, rank, ranks, total_bytes);
  }
  return amount;
}

Traffic::Amount Traffic::LargestOf(size_t ranks, size_t total_bytes) const {
  Amount largest;
  // By distance all ranks are alike.
  const size_t different = from_matrix() ? ranks : 1;
  for (size_t rank = 0; rank < different; ++rank) {
    const Amount amount = Of(rank, ranks, total_bytes);
    largest.send_bytes = std::max(largest.send_bytes, amount.send_bytes);
    largest.recv_bytes = std::max(largest.recv_bytes, amount.recv_bytes);
  }
  return largest;
}

std::string Traffic::SummaryText(size_t ranks, size_t total_bytes, double seconds) const {
  std::string text = "# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: ";
  if (from_matrix()) {
    text += Printf("mode=matrix nranks=%zu matrix_dim=%zu scale=%.3f", ranks, dimension_, scale_);
  } else {
    text += Printf("mode=generated nranks=%zu total_bytes=%zu spread=%.3f", ranks, total_bytes,
                   spread_);
  }
  text += Printf(" time_usec=%.2f\n", seconds * 1e6);
  for (size_t rank = 0; rank < ranks; ++rank) {
    const Amount amount = Of(rank, ranks, total_bytes);
    const double bytes = std::max(amount.send_bytes, amount.recv_bytes);
    const double rate = seconds > 0 ? bytes / 1e9 / seconds : 0;
    text += Printf("#   rank=%zu send_bytes=%zu recv_bytes=%zu alg_bw=%.2f bus_bw=%.2f\n", rank,
                   amount.send_bytes, amount.recv_bytes, rate,
                   rate * BusFactor(OperationKind::kAllToAllV, ranks));
  }
  return text;
}

}  // namespace weft::perf
