// Says who is waited for, while a rank of a group over several islands waits for long: what comm/node/wait_report is for the ranks of
// one island.
//
//   const auto report = std::make_shared<SpanWaitReport>("s", group_id, rank, records, end);
//   WatchGroup(report);                       // once the group can be used
//   ...
//   UnwatchGroup(report.get());
//   report->Close();                          // before the records go
//
// After two seconds a line if whom it waits for is a rank of this island that is stopped, frozen, or the like; after ten seconds, and then
// at doubling distances, a line that says for what this rank waits, and for whom. If that rank waits itself, and is of this island, the one
// at the end of the way is named. They are warnings: what is waited for may come.
//
// Ranks of the same island see each other's waits in all of their groups (comm/agent/wait_cycle.h), so those that wait for each other for
// ever in different groups are told of.
//
// Thread-safety: as Watched; Close from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "comm/agent/watched.h"
#include "comm/hierarchy/span_end.h"
#include "comm/hierarchy/span_records.h"

namespace weft {

class SpanWaitReport : public Watched {
 public:
  static constexpr int64_t kStalledNs = 2'000'000'000;
  static constexpr int64_t kStuckNs = 10'000'000'000;

  SpanWaitReport(std::string group, uint32_t epoch, int rank, std::shared_ptr<SpanRecords> records,
                 std::shared_ptr<const SpanEnd> end);

  // Nothing is looked at from here on.
  void Close();

  // Watched. Lifelines are the island's group's.
  void AppendLifelines(std::vector<int>* /*lifelines*/) const override {}

  int64_t Look(int64_t now_ns) override;
  std::optional<ProcessWait> Wait() const override;

  // The island's groups show it.
  void Show(const std::optional<ProcessWait>& /*wait*/) override {}

  std::optional<ProcessWait> Read(const ProcessName& /*process*/) const override {
    return std::nullopt;
  }

 private:
  std::string Call() const WEFT_REQUIRES(mutex_);
  void Report(int64_t now_ns) WEFT_REQUIRES(mutex_);
  void Describe() WEFT_REQUIRES(mutex_);

  const std::string group_;
  const uint32_t epoch_;
  const int rank_;
  const std::shared_ptr<SpanRecords> records_;
  const std::shared_ptr<const SpanEnd> end_;

  mutable Mutex mutex_;
  bool closed_ WEFT_GUARDED_BY(mutex_) = false;
  std::optional<SpanWait> wait_ WEFT_GUARDED_BY(mutex_);  // at the last look
  uint64_t messages_ended_ WEFT_GUARDED_BY(mutex_) = 0;   // then
  uint32_t looks_ WEFT_GUARDED_BY(mutex_) = 0;
  int64_t since_ns_ WEFT_GUARDED_BY(mutex_) = 0;  // when this operation was first seen to wait
  int64_t stuck_ns_ WEFT_GUARDED_BY(mutex_) =
      kStuckNs;  // how long it will have waited at the next line
  int stalled_told_ WEFT_GUARDED_BY(mutex_) = -1;
  std::optional<ProcessWait> shown_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft
