// Event files, read back by a reader of its own; TensorBoard's reads them in
// tests/frameworks/tensorboard_test.py.
#include "trainer/event_file.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <stdlib.h>

#include "base/crc32c_table.h"
#include "trainer/failure.h"

namespace weft::trainer::event_file_test {
namespace {

// Fields of a message by number: numbers and floats as their bytes.
using Fields = std::multimap<uint64_t, std::string>;

uint64_t TakeVarint(std::string_view& bytes) {
  uint64_t value = 0;
  for (unsigned shift = 0; !bytes.empty(); shift += 7) {
    const auto byte = uint8_t(bytes[0]);
    bytes.remove_prefix(1);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) break;
  }
  return value;
}

Fields Parse(std::string_view bytes) {
  Fields fields;
  while (!bytes.empty()) {
    const uint64_t key = TakeVarint(bytes);
    size_t count = 0;
    switch (key & 7) {
      case 0: {
        fields.emplace(key >> 3, std::to_string(TakeVarint(bytes)));
        continue;
      }
      case 1:
        count = 8;
        break;
      case 2:
        count = TakeVarint(bytes);
        break;
      case 5:
        count = 4;
        break;
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
        return fields;
    }
    fields.emplace(key >> 3, std::string(bytes.substr(0, count)));
    bytes.remove_prefix(std::min(count, bytes.size()));
  }
  return fields;
}

template <typename T>
T NumberIn(std::string_view bytes) {
  T value = {};
  EXPECT_GE(bytes.size(), sizeof value);
  if (bytes.size() >= sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

uint32_t Masked(std::string_view bytes) {
  const uint32_t sum = Crc32cByTable(0, bytes.data(), bytes.size());
  return ((sum >> 15) | (sum << 17)) + 0xa282ead8u;
}

// The events of a file whose sums are right.
std::vector<Fields> EventsIn(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string all(std::istreambuf_iterator<char>(in), {});
  std::string_view left(all);
  std::vector<Fields> events;
  while (!left.empty()) {
    const auto length = NumberIn<uint64_t>(left);
    EXPECT_EQ(NumberIn<uint32_t>(left.substr(8)), Masked(left.substr(0, 8)));
    const std::string_view bytes = left.substr(12, length);
    EXPECT_EQ(NumberIn<uint32_t>(left.substr(12 + length)), Masked(bytes));
    events.push_back(Parse(bytes));
    left.remove_prefix(16 + length);
  }
  return events;
}

class EventFileTest : public ::testing::Test {
 protected:
  EventFileTest() {
    std::string name = (std::filesystem::temp_directory_path() / "weft-events-XXXXXX").string();
    directory_ = mkdtemp(name.data()) == nullptr ? "" : name;
  }

  ~EventFileTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  std::filesystem::path TheFile() const {
    const std::vector<std::filesystem::directory_entry> files(
        std::filesystem::directory_iterator(directory_), {});
    EXPECT_EQ(files.size(), 1u);
    return files.empty() ? directory_ : files[0].path();
  }

  std::filesystem::path directory_;
};

TEST_F(EventFileTest, HasTheVersionAndTheScalarsOfEachStep) {
  {
    EventFile events(directory_.string(), 0);
    events.Add(1, {{"loss/train", 5.5}, {"speed/tokens per second", 1e6}});
    events.Add(300, {{"loss/train", std::nan("")}});
    events.Finish();
    EXPECT_EQ(events.Unwritten(), "");
  }
  EXPECT_EQ(TheFile().filename().string().find("events.out.tfevents."), 0u);
  const std::vector<Fields> events = EventsIn(TheFile());
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].find(3)->second, "brain.Event:2");
  EXPECT_GT(NumberIn<double>(events[1].find(1)->second), 1.7e9);
  EXPECT_EQ(events[1].find(2)->second, "1");
  EXPECT_EQ(events[2].find(2)->second, "300");
  const Fields summary = Parse(events[1].find(5)->second);
  ASSERT_EQ(summary.count(1), 2u);
  const Fields first = Parse(summary.find(1)->second);
  EXPECT_EQ(first.find(1)->second, "loss/train");
  EXPECT_EQ(NumberIn<float>(first.find(2)->second), 5.5f);
  const Fields second = Parse(std::next(summary.find(1))->second);
  EXPECT_EQ(second.find(1)->second, "speed/tokens per second");
  EXPECT_EQ(NumberIn<float>(second.find(2)->second), 1e6f);
  const Fields last = Parse(Parse(events[2].find(5)->second).find(1)->second);
  EXPECT_TRUE(std::isnan(NumberIn<float>(last.find(2)->second)));
}

// TensorBoard forgets what another file has of later steps.
TEST_F(EventFileTest, OfARunThatGoesOnBeginsASession) {
  { EventFile events(directory_.string(), 20); }
  const std::vector<Fields> events = EventsIn(TheFile());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].find(2)->second, "21");
  EXPECT_EQ(Parse(events[1].find(7)->second).find(1)->second, "1");
}

TEST_F(EventFileTest, WhereNothingMayBeWrittenIsBadInput) {
  EXPECT_THROW(EventFile((directory_ / "none").string(), 0), BadInput);
}

}  // namespace
}  // namespace weft::trainer::event_file_test
