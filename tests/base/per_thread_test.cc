#include "base/per_thread.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace weft::per_thread_test {
namespace {

std::atomic<int> live_objects{0};

struct Counted {
  Counted() { ++live_objects; }

  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

  ~Counted() { --live_objects; }

  int number = 0;
};

// Another type with the same content.
struct AlsoCounted : Counted {};

TEST(PerThread, GivesTheSameObjectToOneThreadAndAnotherToEachOther) {
  PerThread<Counted>::Get().number = 1;
  EXPECT_EQ(PerThread<Counted>::Get().number, 1);
  std::vector<std::thread> threads;
  for (int number = 2; number < 10; ++number) {
    threads.emplace_back([number] {
      EXPECT_EQ(PerThread<Counted>::Get().number, 0);
      PerThread<Counted>::Get().number = number;
      std::this_thread::yield();
      EXPECT_EQ(PerThread<Counted>::Get().number, number);
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(PerThread<Counted>::Get().number, 1);
}

TEST(PerThread, KeepsAnObjectOfEachType) {
  std::thread([] {
    PerThread<Counted>::Get().number = 1;
    PerThread<AlsoCounted>::Get().number = 2;
    PerThread<std::string>::Get() = "three";
    EXPECT_EQ(PerThread<Counted>::Get().number, 1);
    EXPECT_EQ(PerThread<AlsoCounted>::Get().number, 2);
    EXPECT_EQ(PerThread<std::string>::Get(), "three");
  }).join();
}

TEST(PerThread, FindsOnlyWhatWasAskedFor) {
  std::thread([] {
    EXPECT_EQ(PerThread<Counted>::Find(), nullptr);
    Counted& made = PerThread<Counted>::Get();
    EXPECT_EQ(PerThread<Counted>::Find(), &made);
    EXPECT_EQ(PerThread<AlsoCounted>::Find(), nullptr);
  }).join();
}

TEST(PerThread, FreesAllWhenItsThreadEnds) {
  const int before = live_objects;
  std::thread([before] {
    PerThread<Counted>::Get();
    PerThread<AlsoCounted>::Get();
    EXPECT_EQ(live_objects, before + 2);
  }).join();
  EXPECT_EQ(live_objects, before);
}

// Of an object that is freed first, as it was made last.
struct MakesAnother {
  ~MakesAnother() { PerThread<AlsoCounted>::Get().number = 1; }
};

// And of one that the thread had before it had any object, which is therefore destroyed when all have been freed.
struct AsksLate {
  ~AsksLate() {
    EXPECT_EQ(PerThread<Counted>::Find(), nullptr);
    PerThread<Counted>::Get().number = 1;
  }

  int number = 0;
};

TEST(PerThread, FreesWhatDestructorsMakeToo) {
  const int before = live_objects;
  std::thread([] {
    thread_local AsksLate late;
    late.number = 1;
    PerThread<Counted>::Get();
    PerThread<MakesAnother>::Get();
  }).join();
  EXPECT_EQ(live_objects, before);
}

}  // namespace
}  // namespace weft::per_thread_test
