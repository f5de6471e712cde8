// A machine made of files: what lies in /proc and /sys for a test, below a folder of its own.
//
//   class HostTest : public MachineOfFiles {};
//   Write("/proc/meminfo", "MemTotal: 24 kB\n");
//   ReadHostFacts(root_, 8);
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <stdlib.h>

namespace weft {

class MachineOfFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "weft-machine-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }

  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  std::string root_;
};

}  // namespace weft
