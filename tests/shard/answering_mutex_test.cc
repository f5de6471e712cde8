#include "shard/context/answering_mutex.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace weft::answering_mutex_test {
namespace {

TEST(AnsweringMutex, AnswersAtOnceIfNobodyHoldsIt) {
  int answers = 0;
  AnsweringMutex mutex([&] { ++answers; });
  mutex.Ask();
  EXPECT_EQ(answers, 1);
}

TEST(AnsweringMutex, HolderThatAsksAnswersWhenItLetsGo) {
  int answers = 0;
  AnsweringMutex mutex([&] { ++answers; });
  {
    Section section(mutex);
    mutex.Ask();
    mutex.Ask();
    EXPECT_EQ(answers, 0);
  }
  EXPECT_EQ(answers, 1);
  { Section section(mutex); }
  EXPECT_EQ(answers, 1);
}

// Every question is followed by an answer that begins after it; the answers, and the sections, exclude each other.
TEST(AnsweringMutex, NoQuestionOfAnyThreadIsLost) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 20'000;
  std::atomic<int64_t> asked{0};
  int64_t answered = 0;  // how many were asked when the last answer began; guarded by the mutex
  int64_t inside = 0;
  AnsweringMutex mutex([&] {
    EXPECT_EQ(++inside, 1);
    answered = asked.load();
    --inside;
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, asks = i % 2 == 0] {
      for (int round = 0; round < kRounds; ++round) {
        if (asks) {
          ++asked;
          mutex.Ask();
        } else {
          Section section(mutex);
          EXPECT_EQ(++inside, 1);
          --inside;
        }
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  Section section(mutex);
  EXPECT_EQ(answered, asked.load());
}

}  // namespace
}  // namespace weft::answering_mutex_test
