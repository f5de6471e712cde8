// Traffic of messages between the ranks of a group, made from a seed and checked byte by byte.
//
//   EXPECT_EQ(RunTraffic(*group, {.seed = seed, .messages = 200}), "");
//
// All ranks compute the same list of messages; each issues its part in an order of its own, from and into
// memory of its own choice, and waits in another order. Contents are functions of the message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/group/process_group.h"

namespace weft::test {

// A pseudo-random number that depends on all of its arguments.
uint64_t Mix(uint64_t a, uint64_t b = 0, uint64_t c = 0);

// Bytes in private or symmetric memory, surrounded by canaries.
class MessageBuffer {
 public:
  MessageBuffer(size_t bytes, bool heap, size_t misalignment = 0);
  ~MessageBuffer();
  MessageBuffer(const MessageBuffer&) = delete;
  MessageBuffer& operator=(const MessageBuffer&) = delete;

  char* data() const { return data_; }

  void Fill(uint64_t content);
  // "" or what is wrong.
  std::string Compare(uint64_t content) const;

 private:
  const size_t bytes_;
  const bool heap_;
  char* block_ = nullptr;
  char* data_ = nullptr;
  std::vector<char> own_;
};

struct Traffic {
  uint64_t seed = 1;
  int messages = 100;            // in the whole group
  size_t large_bytes = 1000003;  // the largest
  int tags = 5;
};

// "" or what is wrong.
std::string RunTraffic(ProcessGroup& group, const Traffic& traffic);

// Every rank sends every rank, itself too, `messages` of all sizes, types and tags, and finds out what comes: by probes that wait,
// are asked again and again or are started, and by receives of any tag. "" or what is wrong: of each sender all must come in
// the order in which they were sent, and be what the probe has said.
std::string RunProbes(ProcessGroup& group, uint64_t seed, int messages);

// Shorthands for uint8 messages.
Message SendOf(const void* in, size_t bytes, int destination, uint64_t tag = 0);
Message RecvOf(void* out, size_t bytes, int source, uint64_t tag = 0, int* sender = nullptr);

Message ProbeOf(int source, uint64_t tag, weft_message_info_t* info = nullptr);

// The message of a status; "" for Ok.
std::string Text(const absl::Status& status);

// "" if `status` has this code and its sentence has all the words.
std::string Expect(const absl::Status& status, weft_result_t result,
                   const std::vector<std::string>& words = {});

// Run, or Start and Wait.
absl::Status Do(ProcessGroup& group, const Message& message, bool asynchronous);

}  // namespace weft::test
