#include "shard/checkpoint/lock_owner.h"

#include <array>
#include <charconv>
#include <limits>
#include <memory>

#include <fmt/format.h>
#include <unistd.h>

#include "base/json_reader.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/rendezvous/launch_environment.h"
#include "shard/checkpoint/sealed_text.h"

namespace weft {
namespace {

constexpr const char* kFormat = "weft-checkpoint-lock";
constexpr int kVersion = 1;
constexpr std::string_view kRestartInfix = "-restart";

// "pid:[4026531836]".
std::string OwnPidNamespace() {
  std::array<char, 64> text;
  const ssize_t bytes = readlink("/proc/self/ns/pid", text.data(), text.size());
  return bytes > 0 ? std::string(text.data(), static_cast<size_t>(bytes)) : "";
}

// "" where nobody has given this process a job, or its environment contradicts itself: others have said so by now.
std::string OwnJob() {
  const absl::StatusOr<LaunchEnvironment> launch = ReadLaunchEnvironment();
  if (!launch.ok()) return "";
  std::string job = launch->job_id;
  // weftrun numbers the starts of a job that it starts again.
  const size_t restart = job.rfind(kRestartInfix);
  if (restart != std::string::npos &&
      job.find_first_not_of("0123456789", restart + kRestartInfix.size()) == std::string::npos)
    job.resize(restart);
  return job;
}

}  // namespace

LockOwner ThisProcess(Proc& proc, uint64_t token) {
  const ProcessIdentity self = proc.Self();
  return {.token = token,
          .host = self.host,
          .boot_id = self.boot_id,
          .pid_namespace = OwnPidNamespace(),
          .pid = self.pid,
          .start_time = self.start_time,
          .job = OwnJob()};
}

std::string LockOwnerText(const LockOwner& owner) {
  const Json json = {{"format", kFormat},
                     {"version", kVersion},
                     {"token", fmt::format("{:016x}", owner.token)},
                     {"host", owner.host},
                     {"boot_id", owner.boot_id},
                     {"pid_namespace", owner.pid_namespace},
                     {"pid", owner.pid},
                     {"start_time", owner.start_time},
                     {"job", owner.job}};
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.pop_back();
  return Sealed(std::move(text));
}

absl::StatusOr<LockOwner> ReadLockOwner(std::string_view file, std::string_view text) {
  WEFT_RETURN_IF_ERROR(CheckSeal(file, text));
  JsonReader reader(file);
  const Json json = reader.Parse(text, kLockOwnerTextMax);
  LockOwner owner;
  if (reader.Text(reader.Member(json, "format")) != kFormat) reader.FailValue("another one");
  const std::string token = reader.Text(reader.Member(json, "token"));
  const auto [end, error] =
      std::from_chars(token.data(), token.data() + token.size(), owner.token, 16);
  if (error != std::errc() || end != token.data() + token.size() || owner.token == 0)
    reader.FailValue("no number of 64 bits");
  owner.host = reader.Text(reader.Member(json, "host"));
  owner.boot_id = reader.Text(reader.Member(json, "boot_id"));
  owner.pid_namespace = reader.Text(reader.Member(json, "pid_namespace"));
  owner.pid = static_cast<int32_t>(
      reader.Number(reader.Member(json, "pid"), std::numeric_limits<int32_t>::max()));
  owner.start_time = reader.Number(reader.Member(json, "start_time"), uint64_t{1} << 63);
  owner.job = reader.Text(reader.Member(json, "job"));
  WEFT_RETURN_IF_ERROR(reader.status());
  return owner;
}

std::string Describe(const LockOwner& owner) {
  if (owner.token == 0) return "a process that did not come to say who it is";
  return StrCat("process ", owner.pid, " on host ", owner.host,
                owner.job.empty() ? "" : StrCat(" of job ", owner.job));
}

bool IsOfSameJob(const LockOwner& a, const LockOwner& b) {
  return !a.job.empty() && a.job == b.job;
}

OwnerLife LifeOf(Proc& proc, const LockOwner& self, const LockOwner& owner) {
  const bool visible = owner.token != 0 && !self.boot_id.empty() && owner.boot_id == self.boot_id &&
                       !self.pid_namespace.empty() && owner.pid_namespace == self.pid_namespace &&
                       owner.pid > 0;
  if (!visible) return OwnerLife::kNotKnown;
  const absl::StatusOr<std::unique_ptr<PeerProcess>> process =
      proc.Open(owner.pid, owner.start_time);
  if (!process.ok()) return OwnerLife::kNotKnown;
  return (*process)->Ended() ? OwnerLife::kEnded : OwnerLife::kLives;
}

}  // namespace weft
