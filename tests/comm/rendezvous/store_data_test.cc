#include "comm/rendezvous/store_data.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/wire.h"

namespace weft::store_data_test {
namespace {

// The type of the answer to one request of client 1, which must be the only one.
FrameType Ask(StoreData& data, FrameType type, std::string body) {
  std::vector<StoreData::Answer> answers;
  EXPECT_TRUE(data.Serve(1, {.type = type, .request = 7, .body = std::move(body)}, &answers));
  if (answers.size() != 1) return FrameType::kLeave;
  EXPECT_EQ(answers[0].client, 1);
  EXPECT_EQ(answers[0].frame.request, 7u);
  return answers[0].frame.type;
}

std::string SetBody(std::string_view key, std::string_view value) {
  WireWriter writer;
  writer.Text(key);
  writer.Text(value);
  return writer.Take();
}

std::string RemoveBody(std::string_view key) {
  WireWriter writer;
  writer.Text(key);
  return writer.Take();
}

TEST(StoreData, WhatIsRemovedMakesRoom) {
  StoreData data;
  const std::string largest(kStoreValueBytesMax, 'x');
  const size_t held = StoreData::kBytesMax / kStoreValueBytesMax;
  for (size_t i = 0; i < held + 10; ++i) {
    const std::string key = "large " + std::to_string(i);
    ASSERT_EQ(Ask(data, FrameType::kSet, SetBody(key, largest)), FrameType::kDone) << i;
    ASSERT_EQ(Ask(data, FrameType::kRemove, RemoveBody(key)), FrameType::kDone) << i;
    ASSERT_EQ(Ask(data, FrameType::kRemove, RemoveBody(key)), FrameType::kDone)
        << "no longer there";
  }
}

TEST(StoreData, HoldsWhatWasSetUntilItIsRemoved) {
  StoreData data;
  EXPECT_FALSE(data.Holds("key"));
  ASSERT_EQ(Ask(data, FrameType::kSet, SetBody("key", "")), FrameType::kDone);
  EXPECT_TRUE(data.Holds("key"));
  EXPECT_FALSE(data.Holds("key/longer"));
  EXPECT_FALSE(data.Holds(""));
  ASSERT_EQ(Ask(data, FrameType::kRemove, RemoveBody("key")), FrameType::kDone);
  EXPECT_FALSE(data.Holds("key"));
}

TEST(StoreData, RefusesAMalformedRemove) {
  StoreData data;
  std::vector<StoreData::Answer> answers;
  for (const std::string& body : {std::string(), RemoveBody(""), RemoveBody("key") + "x"}) {
    EXPECT_FALSE(data.Serve(1, {.type = FrameType::kRemove, .body = body}, &answers));
  }
  EXPECT_TRUE(answers.empty());
}

}  // namespace
}  // namespace weft::store_data_test
