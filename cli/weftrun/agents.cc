// There are two clients because a client asks one thing at a time, and the wait for the verdict lasts a whole round: listener_
// waits for it, speaker_ says what this node has to say. After a failure speaker_ is made anew, since what it waits for does
// not come any more. Keys carry the round, so that nothing said in one is heard in the next.
#include "cli/weftrun/agents.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <unistd.h>

#include "absl/strings/numbers.h"
#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"

namespace weft {
namespace {

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();
constexpr size_t kReasonBytesMax = 1000;

// "137 1 rank 3 on node 1 killed by signal 9 (SIGKILL)".
std::string Encode(const RoundEnd& verdict) {
  return StrCat(verdict.exit_code, " ", verdict.restart ? 1 : 0, " ",
                std::string_view(verdict.reason).substr(0, kReasonBytesMax));
}

std::optional<RoundEnd> Decode(std::string_view text) {
  const size_t first = text.find(' ');
  const size_t second = first == std::string_view::npos ? first : text.find(' ', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  RoundEnd verdict;
  const std::string_view restart = text.substr(first + 1, second - first - 1);
  if (!absl::SimpleAtoi(ToAbsl(text.substr(0, first)), &verdict.exit_code)) return std::nullopt;
  if (verdict.exit_code < 0 || verdict.exit_code > 255) return std::nullopt;
  if (restart != "0" && restart != "1") return std::nullopt;
  verdict.restart = restart == "1";
  verdict.reason = std::string(text.substr(second + 1, kReasonBytesMax));
  return verdict;
}

}  // namespace

Agents::Agents(const RunOptions& options, const JobPlan& plan)
    : node_rank_(options.node_rank),
      node_count_(options.node_count),
      endpoint_(plan.store),
      secret_(plan.secret) {}

absl::Status Agents::Open() {
  if (node_rank_ != 0) return absl::OkStatus();
  store_ = std::make_unique<StoreServer>(
      SystemSeams(),
      StoreServerOptions{
          .secret = secret_, .insecure = secret_.empty(), .uid = static_cast<int64_t>(geteuid())});
  return Annotate(store_->AddListener(&endpoint_),
                  StrCat("opening the job's store at ", endpoint_.ToString(), ": "));
}

std::unique_ptr<StoreClient> Agents::NewClient() const {
  StoreClientOptions options;
  options.endpoints = {endpoint_};
  options.secret = secret_;
  options.connect_deadline_ns = MonotonicNs() + static_cast<int64_t>(GetOptions().timeout_s * 1e9);
  options.host_hint = "node 0's weftrun";
  return std::make_unique<StoreClient>(SystemSeams(), std::move(options));
}

std::string Agents::Key(std::string_view what) const {
  return StrCat("weftrun/", round_, "/", what);
}

void Agents::Wait(std::string_view what, int64_t deadline_ns) {
  script_.push_back(
      {.kind = StoreRequest::Kind::kWait, .key = Key(what), .deadline_ns = deadline_ns});
}

void Agents::Set(std::string_view what, std::string value) {
  script_.push_back({.kind = StoreRequest::Kind::kSet,
                     .key = Key(what),
                     .value = std::move(value),
                     .deadline_ns = MonotonicNs() + kReadyNs});
}

void Agents::BeginRound(int round) {
  round_ = round;
  verdict_.reset();
  script_.clear();
  asking_ = false;
  speaker_ = NewClient();
  listener_ = NewClient();
  listener_->Start(
      {.kind = StoreRequest::Kind::kWait, .key = Key("verdict"), .deadline_ns = kForever});
  if (round == 0) return;
  stage_ = Stage::kGathering;
  const int64_t deadline_ns = MonotonicNs() + kReadyNs;
  if (node_rank_ != 0) {
    Set(StrCat("ready/", node_rank_), "");
    Wait("go", deadline_ns);
    return;
  }
  for (int node = 1; node < node_count_; ++node)
    Wait(StrCat("ready/", node), deadline_ns);
  Set("go", "");
}

void Agents::SayDone() {
  if (node_rank_ != 0) {
    Set(StrCat("done/", node_rank_), "");
    return;
  }
  for (int node = 1; node < node_count_; ++node)
    Wait(StrCat("done/", node), kForever);
  Set("verdict", Encode({}));
}

void Agents::SayFailed(const RoundEnd& verdict) {
  if (verdict_.has_value() || !failure_.ok()) return;
  // Whatever the speaker waits for does not come any more.
  speaker_ = NewClient();
  asking_ = false;
  script_.clear();
  Set("verdict", Encode(verdict));
}

void Agents::Leave() {
  listener_.reset();
  speaker_.reset();
  script_.clear();
  asking_ = false;
}

void Agents::Fail(const absl::Status& status, std::string_view doing) {
  if (failure_.ok()) failure_ = Annotate(status, doing);
  Leave();
}

void Agents::AppendPollItems(std::vector<PollItem>* items) const {
  for (const StoreClient* client : {listener_.get(), speaker_.get()}) {
    if (client != nullptr) client->AppendPollItems(items);
  }
}

int64_t Agents::NextWakeNs() const {
  if (speaker_ != nullptr && !asking_ && !script_.empty()) return 0;
  int64_t wake_ns = kForever;
  for (const StoreClient* client : {listener_.get(), speaker_.get()}) {
    if (client != nullptr) wake_ns = std::min(wake_ns, client->NextWakeNs());
  }
  return wake_ns;
}

void Agents::Step() {
  if (listener_ != nullptr) {
    listener_->Step();
    if (listener_->done()) {
      const StoreReply reply = listener_->TakeReply();
      listener_.reset();
      verdict_ = reply.status.ok() ? Decode(reply.value) : std::nullopt;
      if (!verdict_.has_value()) {
        Fail(reply.status.ok() ? MakeError(WEFT_CORRUPT, "it is no verdict") : reply.status,
             "waiting to hear how the other nodes fare: ");
      }
    }
  }
  while (speaker_ != nullptr) {
    if (!asking_ && !script_.empty()) {
      speaker_->Start(std::move(script_.front()));
      script_.pop_front();
      asking_ = true;
    }
    speaker_->Step();
    if (!asking_ || !speaker_->done()) break;
    asking_ = false;
    if (const StoreReply reply = speaker_->TakeReply(); !reply.status.ok()) {
      Fail(reply.status, stage_ == Stage::kGathering
                             ? StrCat("waiting for all nodes before restart ", round_, ": ")
                             : "telling the other nodes: ");
    } else if (script_.empty()) {
      stage_ = Stage::kRunning;
      break;
    }
  }
}

}  // namespace weft
