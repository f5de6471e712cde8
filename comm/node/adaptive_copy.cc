#include "comm/node/adaptive_copy.h"

#include <algorithm>

#include "base/cache_line.h"
#include "base/wait.h"
#include "comm/select/tuning.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft {
namespace {

constexpr size_t kLookBytes = 4096;      // timed at a time; more than a store buffer holds
constexpr uint32_t kCopiesPerLook = 16;  // a look costs a clock and a drained store buffer
constexpr double kWeight = 0.5;          // of the newest look

// Until all stores have reached the cache or memory.
void Drain() {
#if defined(__x86_64__)
  _mm_mfence();
#endif
}

}  // namespace

// Times one kind of stores on the first bytes of a copy; the other kind has its turn next time. A look that
// took very long counts as four times what is known: the time went to something else.
void AdaptiveCopy::CopyAndLook(char* to, const char* from, size_t bytes) {
  copies_until_look_ = kCopiesPerLook;
  if (stream_ == nullptr) {
    std::memcpy(to, from, bytes);
    return;
  }
  const size_t looked = std::min(bytes, kLookBytes);
  Drain();
  const int64_t before_ns = MonotonicNs();
  if (look_at_stream_) {
    stream_(to, from, looked);
  } else {
    std::memcpy(to, from, looked);
  }
  Drain();
  const auto took_ns = static_cast<double>(MonotonicNs() - before_ns);
  double& known_ns = look_at_stream_ ? stream_line_ns_ : plain_line_ns_;
  const double line_ns = took_ns * kCacheLineBytes / static_cast<double>(looked);
  known_ns = known_ns == 0 ? line_ns
                           : std::min(line_ns, 4 * known_ns) * kWeight + known_ns * (1 - kWeight);
  look_at_stream_ = !look_at_stream_;
  if (stream_line_ns_ == 0) copies_until_look_ = 1;
  streams_ = stream_line_ns_ > 0 && plain_line_ns_ > stream_line_ns_ + kStreamPenaltyLineNs;
  if (streams_) {
    stream_(to + looked, from + looked, bytes - looked);
  } else {
    std::memcpy(to + looked, from + looked, bytes - looked);
  }
}

}  // namespace weft
