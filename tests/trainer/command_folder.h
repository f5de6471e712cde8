// A folder for tests of commands that read metrics, which leave there what they have read.
#ifndef WEFT_TESTS_TRAINER_COMMAND_FOLDER_H_
#define WEFT_TESTS_TRAINER_COMMAND_FOLDER_H_

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "trainer/metrics_command.h"

namespace weft::trainer {

// Of what a test waits for.
inline constexpr std::chrono::seconds kCommandDeadline{60};

// Of commands that end by themselves.
inline constexpr CommandPatience kLongPatience = {
    .until_asked = kCommandDeadline, .until_killed = kCommandDeadline, .until_named = {}};

class CommandFolder : public ::testing::Test {
 protected:
  CommandFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "weft-command-XXXXXX").string();
    directory_ = mkdtemp(name.data()) == nullptr ? "" : name;
  }

  ~CommandFolder() override {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  std::string Read(const std::string& name) const {
    std::ifstream in(directory_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  // Until the command has made the file, which it writes whole.
  bool Comes(const std::string& name) const {
    const auto deadline = std::chrono::steady_clock::now() + kCommandDeadline;
    while (!std::filesystem::exists(directory_ / name)) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      poll(nullptr, 0, 1);
    }
    return true;
  }

  // Until the command, the only child of this process, has ended.
  static void WaitForEnd() {
    siginfo_t info = {};
    ASSERT_EQ(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT), 0);
  }

  std::filesystem::path directory_;
};

}  // namespace weft::trainer

#endif  // WEFT_TESTS_TRAINER_COMMAND_FOLDER_H_
