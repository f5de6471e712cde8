#include "trainer/event_file.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>

#include <fmt/core.h>
#include <unistd.h>

#include "base/crc32c_table.h"

namespace weft::trainer {
namespace {

// Protocol buffers, as much of them as an event needs.
class Message {
 public:
  Message& Varint(uint32_t field, uint64_t value) {
    Key(field, 0);
    Raw(value);
    return *this;
  }

  Message& Double(uint32_t field, double value) {
    Key(field, 1);
    Fixed(value);
    return *this;
  }

  Message& Float(uint32_t field, float value) {
    Key(field, 5);
    Fixed(value);
    return *this;
  }

  Message& Bytes(uint32_t field, const std::string& value) {
    Key(field, 2);
    Raw(value.size());
    bytes_ += value;
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void Key(uint32_t field, uint32_t wire_type) { Raw(uint64_t{field} << 3 | wire_type); }

  void Raw(uint64_t value) {
    for (; value >= 0x80; value >>= 7)
      bytes_ += char(value | 0x80);
    bytes_ += char(value);
  }

  // Little-endian, as the machines are that this is built for.
  template <typename T>
  void Fixed(T value) {
    std::array<char, sizeof value> raw{};
    std::memcpy(raw.data(), &value, sizeof value);
    bytes_.append(raw.data(), raw.size());
  }

  std::string bytes_;
};

// event.proto and summary.proto.
enum EventField : uint32_t {
  kWallTime = 1,
  kStep = 2,
  kFileVersion = 3,
  kSummary = 5,
  kSessionLog = 7
};

constexpr uint32_t kSummaryValue = 1, kValueTag = 1, kValueSimple = 2, kSessionStatus = 1;
constexpr uint64_t kSessionStart = 1;

// A sum of bytes that have sums of their own in them would be a poor one: so it is masked.
std::string MaskedSum(const std::string& bytes) {
  const uint32_t sum = Crc32cByTable(0, bytes.data(), bytes.size());
  const uint32_t masked = ((sum >> 15) | (sum << 17)) + 0xa282ead8u;
  std::string out(sizeof masked, '\0');
  std::memcpy(out.data(), &masked, sizeof masked);
  return out;
}

std::string RecordOf(const std::string& bytes) {
  const uint64_t length = bytes.size();
  std::string head(sizeof length, '\0');
  std::memcpy(head.data(), &length, sizeof length);
  return head + MaskedSum(head) + bytes + MaskedSum(bytes);
}

double Now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string EventPathIn(const std::string& directory) {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0')
    host = {'h', 'o', 's', 't'};
  return fmt::format("{}/events.out.tfevents.{:010.0f}.{}.{}", directory, Now(), host.data(),
                     getpid());
}

}  // namespace

EventFile::EventFile(const std::string& directory, size_t go_on_after)
    : file_(EventPathIn(directory), 0) {
  Message first;
  first.Double(kWallTime, Now()).Bytes(kFileVersion, "brain.Event:2");
  file_.Append(RecordOf(first.bytes()));
  if (go_on_after == 0) return;
  Message log, start;
  log.Varint(kSessionStatus, kSessionStart);
  start.Double(kWallTime, Now()).Varint(kStep, go_on_after + 1).Bytes(kSessionLog, log.bytes());
  file_.Append(RecordOf(start.bytes()));
}

void EventFile::Add(size_t step, const std::vector<Scalar>& scalars) {
  Message summary;
  for (const Scalar& scalar : scalars) {
    Message value;
    value.Bytes(kValueTag, scalar.tag).Float(kValueSimple, float(scalar.value));
    summary.Bytes(kSummaryValue, value.bytes());
  }
  Message event;
  event.Double(kWallTime, Now()).Varint(kStep, step).Bytes(kSummary, summary.bytes());
  file_.Append(RecordOf(event.bytes()));
}

}  // namespace weft::trainer
