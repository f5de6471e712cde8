// Measuring ends, and says nothing impossible, on a loaded machine too. How right the numbers are depends
// on what else the machine does, and is not tested.
#include "comm/select/measure.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>

#include "comm/select/partner.h"
#include "comm/select/tuning.h"
#include "tests/support/leak_check.h"

namespace weft::test::measure_test {
namespace {

TEST(Measure, GivesASaneModelOfThisMachine) {
  const HostFacts host = ReadHostFacts();
  const MeasuredModel measured = MeasureModel(host, kMeasureBudgetNs);
  EXPECT_TRUE(IsSane(measured.model));
  EXPECT_GT(measured.measured_count, 0);
  EXPECT_LE(measured.measured_count, static_cast<int>(ModelFields().size()));
  EXPECT_GT(measured.took_ns, 0);
  EXPECT_EQ(measured.model.cores, host.cores);
  EXPECT_EQ(measured.model.l2_bytes, host.l2_bytes);
  for (const int ranks : {1, 2, 8})
    EXPECT_TRUE(Validate(Choose(measured.model, ranks), ranks).ok());
}

TEST(Measure, WithoutTimeIsTheStaticModel) {
  const HostFacts host = ReadHostFacts();
  for (const int64_t budget_ns : {int64_t{0}, int64_t{-1}, int64_t{1}}) {
    const MeasuredModel measured = MeasureModel(host, budget_ns);
    EXPECT_FALSE(measured.complete);
    const MachineModel expected = StaticModel(host);
    for (const ModelField& field : ModelFields())
      EXPECT_EQ(measured.model.*field.value, expected.*field.value) << field.name;
  }
}

TEST(Measure, OneCoreLeavesWhatHappensBetweenTwo) {
  HostFacts host = ReadHostFacts();
  host.cores = 1.5;
  const MeasuredModel measured = MeasureModel(host, kMeasureBudgetNs);
  const MachineModel expected = StaticModel(host);
  for (double MachineModel::*field :
       {&MachineModel::sync_ns, &MachineModel::yield_ns, &MachineModel::futex_ns,
        &MachineModel::store_shared_plain_line_ns, &MachineModel::store_shared_stream_line_ns,
        &MachineModel::read_shared_plain_line_ns, &MachineModel::read_shared_stream_line_ns}) {
    EXPECT_EQ(measured.model.*field, expected.*field);
  }
  EXPECT_GT(measured.measured_count, 0);
}

TEST(Measure, ASmallContainerKeepsItsMemory) {
  HostFacts host = ReadHostFacts();
  host.memory_bytes = uint64_t{64} << 20;
  const MeasuredModel measured = MeasureModel(host, kMeasureBudgetNs);
  EXPECT_EQ(measured.model.dram_copy_line_ns, MachineModel().dram_copy_line_ns);
  EXPECT_EQ(measured.model.dram_copy_stream_line_ns, MachineModel().dram_copy_stream_line_ns);
}

TEST(Measure, GivesTheCallingThreadItsCpusBack) {
  cpu_set_t before;
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  MeasureModel(ReadHostFacts(), kMeasureBudgetNs);
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(Measure, EndsOnABusyMachine) {
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> turns{0};
  std::vector<std::thread> busy;
  for (int i = 0; i < 6; ++i) {
    busy.emplace_back([&] {
      while (!stop.load())
        turns.fetch_add(1);
    });
  }
  for (int i = 0; i < 2; ++i) {
    const MeasuredModel measured = MeasureModel(ReadHostFacts(), kMeasureBudgetNs);
    EXPECT_TRUE(IsSane(measured.model));
  }
  stop.store(true);
  for (std::thread& thread : busy)
    thread.join();
  EXPECT_GT(turns.load(), 0u);
}

TEST(Measure, TwoAtATimeAndLeavesNothingBehind) {
  MeasureModel(ReadHostFacts(), 1'000'000);  // what libraries keep from their first use
  const Holdings before = Holdings::Now();
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back(
        [] { EXPECT_TRUE(IsSane(MeasureModel(ReadHostFacts(), kMeasureBudgetNs).model)); });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(Holdings::Now().Since(before), "");
}

int64_t InMs(int64_t ms) {
  return MonotonicNs() + ms * 1'000'000;
}

TEST(Partner, DoesOneTaskAfterTheOther) {
  Partner partner(InMs(60'000));
  ASSERT_TRUE(partner.running());
  std::thread::id other;
  int done = 0;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(partner.Do([&] {
      other = std::this_thread::get_id();
      ++done;
    }));
  }
  EXPECT_EQ(done, 100);
  EXPECT_NE(other, std::this_thread::get_id());
}

TEST(Partner, ATaskThatWaitsTooLongHasEndedWhenFinishReturns) {
  Partner partner(InMs(30));
  bool ended = false;
  EventCount nobody;
  partner.Begin([&] {
    EXPECT_FALSE(partner.WaitFor(nobody, {.spins = 10, .yields = 10}, [] { return false; }));
    ended = true;
  });
  partner.Finish();
  EXPECT_TRUE(ended);
}

TEST(Partner, MayBeEndedWhileItSleeps) {
  const Partner partner(InMs(60'000));
}

}  // namespace
}  // namespace weft::test::measure_test
