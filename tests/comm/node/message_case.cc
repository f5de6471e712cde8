#include "message_case.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <random>
#include <thread>
#include <tuple>
#include <utility>

#include "base/status.h"
#include "base/wait.h"
#include "comm/node/heap.h"
#include "fmt/format.h"

namespace weft::test {
namespace {

constexpr size_t kCanaryBytes = 64;
constexpr char kCanary = 0x5c;

// One message of the list.
struct Planned {
  int source;
  int destination;
  uint64_t tag;
  size_t bytes;
  uint64_t content;
};

size_t BytesFor(uint64_t random, size_t large_bytes) {
  constexpr size_t kEager = WEFT_EAGER_BYTES;
  const size_t sizes[] = {0,          1,          24,         25,    88,        1021,
                          kEager - 1, kEager,     kEager + 1, 65537, 128 << 10, (128 << 10) + 1,
                          400000,     large_bytes};
  // Mostly small ones.
  return sizes[random % 4 == 0 ? random / 4 % std::size(sizes) : random / 4 % 8];
}

std::vector<Planned> PlanOf(const Traffic& traffic, int size) {
  std::vector<Planned> plan;
  const auto ranks = static_cast<uint64_t>(size);
  for (uint64_t i = 0; i < static_cast<uint64_t>(traffic.messages); ++i) {
    plan.push_back({.source = static_cast<int>(Mix(traffic.seed, i, 1) % ranks),
                    .destination = static_cast<int>(Mix(traffic.seed, i, 2) % ranks),
                    .tag = Mix(traffic.seed, i, 3) % static_cast<uint64_t>(traffic.tags),
                    .bytes = BytesFor(Mix(traffic.seed, i, 4), traffic.large_bytes),
                    .content = Mix(traffic.seed, i, 5)});
  }
  return plan;
}

// A rank's part in one message.
struct Part {
  const Planned* planned;
  bool is_send;
  std::unique_ptr<MessageBuffer> buffer;
  WorkRef work;
  int sender = -1;
};

// Sends to one destination with one tag must be issued in the plan's order, and so must receives; all
// else may be shuffled.
void Shuffle(std::vector<Part>* parts, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Part> shuffled = std::move(*parts);
  std::shuffle(shuffled.begin(), shuffled.end(), random);
  const auto key = [](const Part& part) {
    return std::tuple(part.is_send, part.planned->source, part.planned->destination,
                      part.planned->tag);
  };
  // Within each key, the places that it has got are filled in the plan's order.
  for (size_t i = 0; i < shuffled.size(); ++i) {
    size_t least = i;
    for (size_t k = i + 1; k < shuffled.size(); ++k) {
      if (key(shuffled[k]) == key(shuffled[i]) && shuffled[k].planned < shuffled[least].planned) {
        least = k;
      }
    }
    if (least != i) std::swap(shuffled[i], shuffled[least]);
  }
  *parts = std::move(shuffled);
}

std::vector<Part> PartsOf(const std::vector<Planned>& plan, int rank, uint64_t seed) {
  std::vector<Part> parts;
  for (const Planned& planned : plan) {
    for (const bool is_send : {true, false}) {
      if ((is_send ? planned.source : planned.destination) != rank) continue;
      const uint64_t choice = Mix(seed, planned.content, is_send ? 1 : 2);
      Part part{&planned, is_send,
                std::make_unique<MessageBuffer>(planned.bytes, choice % 2 == 0, choice / 2 % 3),
                nullptr};
      if (is_send) part.buffer->Fill(planned.content);
      parts.push_back(std::move(part));
    }
  }
  Shuffle(&parts, Mix(seed, static_cast<uint64_t>(rank)));
  return parts;
}

}  // namespace

uint64_t Mix(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t x = a * 0x9e3779b97f4a7c15ULL + b * 0xc2b2ae3d27d4eb4fULL + c * 0x165667b19e3779f9ULL;
  for (const int shift : {32, 29, 31}) {
    x ^= x >> shift;
    x *= 0xd6e8feb86659fd93ULL;
  }
  return x ^ x >> 32;
}

MessageBuffer::MessageBuffer(size_t bytes, bool heap, size_t misalignment)
    : bytes_(bytes), heap_(heap) {
  const size_t all = bytes + misalignment + 2 * kCanaryBytes;
  if (heap) {
    block_ = static_cast<char*>(*ProcessHeap().Allocate(all));
  } else {
    own_.resize(all);
    block_ = own_.data();
  }
  std::memset(block_, kCanary, all);
  data_ = block_ + kCanaryBytes + misalignment;
}

MessageBuffer::~MessageBuffer() {
  if (heap_) (void)ProcessHeap().Free(block_);
}

void MessageBuffer::Fill(uint64_t content) {
  for (size_t i = 0; i < bytes_; i += 8) {
    const uint64_t word = Mix(content, i / 8);
    std::memcpy(data_ + i, &word, std::min<size_t>(8, bytes_ - i));
  }
}

std::string MessageBuffer::Compare(uint64_t content) const {
  for (size_t i = 0; i < bytes_; i += 8) {
    const uint64_t word = Mix(content, i / 8);
    if (std::memcmp(data_ + i, &word, std::min<size_t>(8, bytes_ - i)) != 0) {
      return fmt::format("bytes {} and on of {} are wrong", i, bytes_);
    }
  }
  for (size_t i = 0; i < kCanaryBytes; ++i) {
    if (data_[bytes_ + i] != kCanary) return "written behind the buffer";
    if (data_[-1 - static_cast<ptrdiff_t>(i)] != kCanary) return "written before the buffer";
  }
  return "";
}

Message SendOf(const void* in, size_t bytes, int destination, uint64_t tag) {
  return {.is_send = true, .in = in, .count = bytes, .peer = destination, .tag = tag};
}

Message RecvOf(void* out, size_t bytes, int source, uint64_t tag, int* sender) {
  return {.out = out, .count = bytes, .peer = source, .tag = tag, .sender = sender};
}

Message ProbeOf(int source, uint64_t tag, weft_message_info_t* info) {
  return {.is_probe = true, .peer = source, .tag = tag, .info = info};
}

std::string Text(const absl::Status& status) {
  return std::string(status.message());
}

std::string Expect(const absl::Status& status, weft_result_t result,
                   const std::vector<std::string>& words) {
  if (ResultOf(status) != result) {
    return "result " + std::to_string(ResultOf(status)) + ": " + Text(status);
  }
  for (const std::string& word : words) {
    if (Text(status).find(word) == std::string::npos) return "no \"" + word + "\": " + Text(status);
  }
  return "";
}

absl::Status Do(ProcessGroup& group, const Message& message, bool asynchronous) {
  if (!asynchronous) return group.Run(message);
  auto work = group.Start(message);
  return work.ok() ? (*work)->Wait(0) : work.status();
}

std::string RunTraffic(ProcessGroup& group, const Traffic& traffic) {
  const std::vector<Planned> plan = PlanOf(traffic, group.size());
  std::vector<Part> parts = PartsOf(plan, group.rank(), traffic.seed);
  for (Part& part : parts) {
    const Planned& planned = *part.planned;
    const Message message =
        part.is_send
            ? SendOf(part.buffer->data(), planned.bytes, planned.destination, planned.tag)
            : RecvOf(part.buffer->data(), planned.bytes, planned.source, planned.tag, &part.sender);
    // A blocking eager send may wait for its receive, but never for something of this rank's own.
    absl::StatusOr<WorkRef> work = group.Start(message);
    if (!work.ok()) return Text(work.status());
    part.work = *work;
  }
  std::vector<size_t> order(parts.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937_64(Mix(traffic.seed, 77)));
  for (const size_t i : order) {
    Part& part = parts[i];
    if (i % 3 == 0) (void)part.work->Test();
    if (const absl::Status status = part.work->Wait(0); !status.ok()) return Text(status);
    if (part.is_send) continue;
    if (part.sender != part.planned->source) return "the sender is wrong";
    const std::string problem = part.buffer->Compare(part.planned->content);
    if (!problem.empty()) {
      return fmt::format("{} to {}, tag {}, {} bytes: {}", part.planned->source,
                         part.planned->destination, part.planned->tag, part.planned->bytes,
                         problem);
    }
  }
  return "";
}

namespace {

constexpr uint64_t kProbeTags = 4;
constexpr int64_t kProbePatienceNs = 60'000'000'000;

// Message `number` from one rank to another.
struct Probed {
  Probed(uint64_t seed, int source, int destination, int number) {
    content = Mix(seed, static_cast<uint64_t>(source * 1000 + destination),
                  static_cast<uint64_t>(number));
    constexpr size_t kSizes[] = {0, 8, 24, 800, 4096, 4104, 70'000, 300'000};
    bytes = kSizes[content % std::size(kSizes)];
    tag = content / 8 % kProbeTags;
    dtype = content / 64 % 2 == 0 ? WEFT_UINT8 : WEFT_FLOAT64;
  }

  size_t count() const { return dtype == WEFT_UINT8 ? bytes : bytes / 8; }

  uint64_t content;
  size_t bytes;
  uint64_t tag;
  weft_dtype_t dtype;
};

// A message that is there, asked for in one of the ways; "" or what is wrong.
std::string AwaitProbe(ProcessGroup& group, const Message& probe, uint64_t way) {
  if (way == 0) return Text(group.Run(probe));
  if (way == 1) {
    const auto work = group.Start(probe);
    return Text(work.ok() ? (*work)->Wait(0) : work.status());
  }
  const int64_t until_ns = MonotonicNs() + kProbePatienceNs;
  while (MonotonicNs() < until_ns) {
    const absl::StatusOr<bool> found = group.TryProbe(probe);
    if (!found.ok()) return Text(found.status());
    if (*found) return "";
    std::this_thread::yield();
  }
  return "no message was found";
}

// The next message, whose sender and place in its order are found out; *next counts those of each sender.
std::string ReceiveProbed(ProcessGroup& group, uint64_t seed, uint64_t choice, int messages,
                          std::vector<int>* next) {
  const auto left = [&](int source) {
    return (*next)[static_cast<size_t>(source)] < messages;
  };
  int source = static_cast<int>(choice % static_cast<uint64_t>(group.size()));
  while (!left(source))
    source = (source + 1) % group.size();
  weft_message_info_t info = {.struct_size = sizeof(info)};
  if (choice / 16 % 4 != 0) {
    const int asked = choice / 64 % 2 == 0 ? source : WEFT_ANY_SOURCE;
    std::string problem = AwaitProbe(group, ProbeOf(asked, WEFT_ANY_TAG, &info), choice / 128 % 3);
    if (!problem.empty()) return problem;
    if (asked == source && info.source != source) return "another source";
    source = info.source;
  } else {  // the size is known, the tag is not
    const Probed expected(seed, source, group.rank(), (*next)[static_cast<size_t>(source)]);
    info.count = expected.count();
    info.dtype = expected.dtype;
    info.tag = WEFT_ANY_TAG;
  }
  if (!left(source)) return "a message too many";
  const Probed expected(seed, source, group.rank(), (*next)[static_cast<size_t>(source)]++);
  if (info.count != expected.count() || info.dtype != expected.dtype ||
      (info.tag != WEFT_ANY_TAG && info.tag != expected.tag)) {
    return fmt::format("from rank {}: {} elements with tag {} instead of {} with tag {}", source,
                       info.count, info.tag, expected.count(), expected.tag);
  }
  MessageBuffer out(expected.bytes, choice / 512 % 2 == 0);
  Message recv = RecvOf(out.data(), info.count, source, info.tag);
  recv.dtype = info.dtype;
  weft_message_info_t told = {.struct_size = sizeof(told)};
  recv.info = &told;
  if (const absl::Status status = Do(group, recv, choice / 1024 % 2 == 0); !status.ok())
    return Text(status);
  if (told.source != source || told.tag != expected.tag || told.count != info.count ||
      told.dtype != info.dtype) {
    return "the receive tells something else";
  }
  return out.Compare(expected.content);
}

}  // namespace

std::string RunProbes(ProcessGroup& group, uint64_t seed, int messages) {
  std::vector<WorkRef> works;
  std::vector<std::unique_ptr<MessageBuffer>> buffers;
  for (int number = 0; number < messages; ++number) {
    for (int destination = 0; destination < group.size(); ++destination) {
      const Probed what(seed, group.rank(), destination, number);
      buffers.push_back(std::make_unique<MessageBuffer>(what.bytes, what.content % 3 == 0));
      buffers.back()->Fill(what.content);
      Message send = SendOf(buffers.back()->data(), what.count(), destination, what.tag);
      send.dtype = what.dtype;
      absl::StatusOr<WorkRef> work = group.Start(send);
      if (!work.ok()) return Text(work.status());
      works.push_back(*work);
    }
  }
  std::vector<int> next(static_cast<size_t>(group.size()));
  for (int i = 0; i < messages * group.size(); ++i) {
    const uint64_t choice =
        Mix(seed, static_cast<uint64_t>(group.rank()), static_cast<uint64_t>(i));
    const std::string problem = ReceiveProbed(group, seed, choice, messages, &next);
    if (!problem.empty()) return fmt::format("message {}: {}", i, problem);
  }
  for (const WorkRef& work : works) {
    if (const absl::Status status = work->Wait(0); !status.ok()) return Text(status);
  }
  // Nothing is left that a probe could find.
  const absl::StatusOr<bool> found = group.TryProbe(ProbeOf(WEFT_ANY_SOURCE, WEFT_ANY_TAG));
  if (!found.ok()) return Text(found.status());
  if (*found) return "a probe finds a message that has been received";
  return Text(group.Run({.kind = OpKind::kBarrier}));  // nobody leaves before
}

}  // namespace weft::test
