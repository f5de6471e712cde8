#include "trainer/run_facts.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "weft/collective.h"

#include "trainer/failure.h"
#include "trainer/parallel.h"

namespace weft::trainer {
namespace {

constexpr size_t kPathBytes = 4096;

struct Head {
  size_t size_at_first;
  size_t reported;
  Precision precision;
  uint64_t config_digest;
  int64_t trained_ns;  // machines have clocks of their own
  RankTime::TimeSent time;
  double order3;
  size_t train_points, validation_points;
  char directory[kPathBytes];
};

Head HeadOf(const RunFacts& facts) {
  Head head = {};
  head.size_at_first = facts.size_at_first;
  head.reported = facts.reported;
  head.precision = facts.precision;
  head.config_digest = facts.config_digest;
  const auto now = std::chrono::steady_clock::now();
  head.trained_ns = std::chrono::nanoseconds(now - facts.training_start).count();
  head.time = facts.time.Sent(now);
  head.order3 = facts.curve.order3;
  head.train_points = facts.curve.train.size();
  head.validation_points = facts.curve.validation.size();
  std::strncpy(head.directory, facts.directory.c_str(), sizeof head.directory - 1);
  return head;
}

void Send(weft_group_t group, size_t root, void* bytes, size_t count) {
  Check(weft_broadcast(bytes, bytes, count, WEFT_UINT8, int(root), group, nullptr, nullptr),
        "telling those that have joined about the run");
}

void Send(weft_group_t group, size_t root, std::vector<CurvePoint>& points) {
  if (!points.empty()) Send(group, root, points.data(), points.size() * sizeof points[0]);
}

}  // namespace

void ShareFacts(weft_group_t group, RunFacts& facts) {
  int rank = 0, size = 1;
  Check(weft_group_rank(group, &rank), "asking for the rank");
  Check(weft_group_size(group, &size), "asking for the group's size");
  const uint8_t knows = facts.size_at_first > 0 ? 1 : 0;
  std::vector<uint8_t> all(size_t(size), 0);
  Check(weft_all_gather(&knows, all.data(), 1, WEFT_UINT8, group, nullptr, nullptr),
        "asking who knows the run");
  const auto root = std::find(all.begin(), all.end(), 1);
  if (root == all.end()) throw RunFailure("all ranks that had the weights are gone; start again");
  if (std::count(all.begin(), all.end(), 0) == 0) return;
  const size_t from = size_t(root - all.begin());
  Head head = HeadOf(facts);
  Send(group, from, &head, sizeof head);
  Curve curve;
  if (from == size_t(rank)) curve = facts.curve;
  curve.train.resize(head.train_points);
  curve.validation.resize(head.validation_points);
  curve.order3 = head.order3;
  Send(group, from, curve.train);
  Send(group, from, curve.validation);
  if (knows != 0) return;
  facts.size_at_first = head.size_at_first;
  facts.reported = head.reported;
  facts.precision = head.precision;
  facts.config_digest = head.config_digest;
  facts.directory = head.directory;
  const auto now = std::chrono::steady_clock::now();
  facts.training_start = now - std::chrono::nanoseconds(head.trained_ns);
  facts.time = RankTime(head.time, now);
  facts.curve = std::move(curve);
}

}  // namespace weft::trainer
