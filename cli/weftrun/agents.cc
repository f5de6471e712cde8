// There are two clients because a client asks one thing at a time, and the wait for the verdict lasts a whole round: listener_
// waits for it, speaker_ says what this node has to say. After a failure speaker_ is made anew, since what it waits for does
// not come any more. Keys carry the round, so that nothing said in one is heard in the next.
#include "cli/weftrun/agents.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include <unistd.h>

#include "absl/strings/numbers.h"
#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/rendezvous/master_endpoints.h"

namespace weft {
namespace {

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();
constexpr size_t kReasonBytesMax = 1000;
constexpr int kNamedMax = 8;
constexpr int kRoundsTold = 1 << 14;  // rounds told apart by labels, which are numbers of 31 bits

// What follows the exit code.
constexpr std::string_view kNoRestart = "0";
constexpr std::string_view kRestart = "1";
constexpr std::string_view kAskedToEnd = "2";

// Of a label of Agents::LabelOf.
int NodeOf(int32_t label) {
  return (-2 - label) % kNodesMax;
}

// "137 1 rank 3 on node 1 killed by signal 9 (SIGKILL)".
std::string Encode(const RoundEnd& verdict) {
  return StrCat(verdict.exit_code, " ",
                verdict.asked ? kAskedToEnd : (verdict.restart ? kRestart : kNoRestart), " ",
                std::string_view(verdict.reason).substr(0, kReasonBytesMax));
}

std::optional<RoundEnd> Decode(std::string_view text) {
  const size_t first = text.find(' ');
  const size_t second = first == std::string_view::npos ? first : text.find(' ', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  RoundEnd verdict;
  const std::string_view then = text.substr(first + 1, second - first - 1);
  if (!absl::SimpleAtoi(ToAbsl(text.substr(0, first)), &verdict.exit_code)) return std::nullopt;
  if (verdict.exit_code < 0 || verdict.exit_code > 255) return std::nullopt;
  if (then != kNoRestart && then != kRestart && then != kAskedToEnd) return std::nullopt;
  verdict.restart = then == kRestart;
  verdict.asked = then == kAskedToEnd;
  verdict.reason = std::string(text.substr(second + 1, kReasonBytesMax));
  return verdict;
}

// "3 4": numbers that belong together, all of them at least `least`.
bool ParsePair(std::string_view text, int least, int* first, int* second) {
  const size_t blank = text.find(' ');
  if (blank == std::string_view::npos) return false;
  return absl::SimpleAtoi(ToAbsl(text.substr(0, blank)), first) && *first >= least &&
         absl::SimpleAtoi(ToAbsl(text.substr(blank + 1)), second) && *second >= least;
}

}  // namespace

Agents::Agents(const RunOptions& options, const JobPlan& plan)
    : node_rank_(options.node_rank),
      ranks_per_node_(options.ranks_per_node),
      node_count_(options.node_count),
      master_(options.master_host),
      endpoint_(plan.store),
      secret_(plan.secret) {}

absl::Status Agents::Open() {
  if (node_rank_ != 0) return absl::OkStatus();
  store_ = std::make_unique<StoreServer>(
      SystemSeams(),
      StoreServerOptions{
          .secret = secret_, .insecure = secret_.empty(), .uid = static_cast<int64_t>(geteuid())});
  WEFT_ASSIGN_OR_RETURN(
      std::vector<Endpoint> endpoints,
      MasterEndpoints({"--master-addr", master_}, endpoint_.host, endpoint_.port));
  for (Endpoint& endpoint : endpoints) {
    WEFT_RETURN_IF_ERROR(
        Annotate(store_->AddListener(&endpoint),
                 StrCat("opening the job's store at ", endpoint.ToString(), ": ")));
  }
  return absl::OkStatus();
}

// Node 0 knows by it whose connection has ended; no rank has such a number.
int32_t Agents::LabelOf(int node) const {
  return -2 - node - (round_ % kRoundsTold) * kNodesMax;
}

bool Agents::AllLeft() const {
  for (int node = 1; node < node_count_; ++node) {
    if (gone_.count(LabelOf(node)) == 0) return false;
  }
  return true;
}

std::unique_ptr<StoreClient> Agents::NewClient(int32_t label) const {
  StoreClientOptions options;
  options.endpoints = {endpoint_};
  options.secret = secret_;
  options.rank = label;
  options.connect_deadline_ns = MonotonicNs() + TimeoutOrDefault(0);
  options.host_hint = "node 0's weftrun";
  options.address_hint = "--master-addr";
  options.unanswered_ns = std::max(kUnansweredNs, UnreachableNs());
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
                     .deadline_ns = MonotonicNs() + GatherNs()});
}

int64_t Agents::GatherNs() const {
  return round_ == 0 ? TimeoutOrDefault(0) : kReadyNs;
}

void Agents::BeginRound(int round) {
  round_ = round;
  verdict_.reset();
  script_.clear();
  said_failed_ = false;
  asking_ = false;
  ranks_of_.clear();
  std::erase_if(gone_, [this](int32_t label) { return label != LabelOf(NodeOf(label)); });
  stage_ = Stage::kGathering;
  speaker_ = NewClient();
  listener_ = NewClient(LabelOf(node_rank_));
  listener_->Start(
      {.kind = StoreRequest::Kind::kWait, .key = Key("verdict"), .deadline_ns = kForever});
  const int64_t deadline_ns = MonotonicNs() + GatherNs();
  script_.push_back({.kind = StoreRequest::Kind::kAdd,
                     .key = Key(StrCat("here/", node_rank_)),
                     .delta = 1,
                     .deadline_ns = deadline_ns});
  Set(StrCat("ready/", node_rank_), StrCat(ranks_per_node_, " ", node_count_));
  for (int node = 0; node_rank_ == 0 && node < node_count_; ++node)
    Wait(StrCat("ready/", node), deadline_ns);
  Wait(StrCat("go/", node_rank_), deadline_ns);
}

std::string Agents::Missing() const {
  if (node_rank_ != 0) return StrCat("the weftruns of the ", node_count_, " nodes to come");
  std::string list;
  int count = 0;
  for (int node = 0; node < node_count_; ++node) {
    if (store_->Holds(Key(StrCat("ready/", node)))) continue;
    if (++count <= kNamedMax) list += StrCat(count == 1 ? "" : ", ", node);
  }
  if (count > kNamedMax) list += StrCat(" and ", count - kNamedMax, " more");
  return StrCat(count == 1 ? "the weftrun of node " : "the weftruns of nodes ", list, " of ",
                node_count_);
}

std::string Agents::Waiting(int64_t waited_s) const {
  const std::string so_far = StrCat(", ", waited_s, " s so far");
  if (node_rank_ == 0) {
    return StrCat("waiting for ", Missing(), " to come to ", endpoint_.ToString(), so_far);
  }
  const bool there = speaker_ != nullptr && speaker_->connected();
  return StrCat("waiting for ", Missing(), so_far,
                there                 ? "; node 0's weftrun is there, and says which are not"
                : speaker_ == nullptr ? ""
                                      : StrCat(": ", speaker_->Unreached()));
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
  // Before this node has found node 0 for the first time nobody counts on it.
  if (round_ == 0 && stage_ == Stage::kGathering && !FoundNode0()) return Leave();
  // Whatever the speaker waits for does not come any more.
  speaker_ = NewClient();
  asking_ = false;
  script_.clear();
  Set("verdict", Encode(verdict));
  said_failed_ = true;
}

// By either client: the other one may be waiting for its next attempt.
bool Agents::FoundNode0() const {
  const auto connected = [](const auto& client) {
    return client != nullptr && client->connected();
  };
  return connected(listener_) || connected(speaker_);
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
  int64_t wake_ns = MayBeat() ? beat_ns_ : kForever;
  for (const StoreClient* client : {listener_.get(), speaker_.get()}) {
    if (client != nullptr) wake_ns = std::min(wake_ns, client->NextWakeNs());
  }
  return wake_ns;
}

void Agents::Step() {
  StepListener();
  StepSpeaker();
  FindLostNodes();
}

bool Agents::MayBeat() const {
  return node_rank_ != 0 && stage_ == Stage::kRunning && speaker_ != nullptr && !asking_ &&
         script_.empty();
}

void Agents::StepListener() {
  if (listener_ == nullptr) return;
  listener_->Step();
  if (!listener_->done()) return;
  const StoreReply reply = listener_->TakeReply();
  listener_.reset();
  verdict_ = reply.status.ok() ? Decode(reply.value) : std::nullopt;
  if (!verdict_.has_value()) {
    Fail(reply.status.ok() ? MakeError(WEFT_CORRUPT, "it is no verdict") : reply.status,
         "waiting to hear how the other nodes fare: ");
  } else if (verdict_->exit_code != 0) {
    // What the speaker waits for does not come any more, and what it says nobody needs.
    speaker_.reset();
    script_.clear();
    asking_ = false;
  }
}

void Agents::StepSpeaker() {
  while (speaker_ != nullptr) {
    beating_ = beating_ && asking_;
    if (MayBeat() && MonotonicNs() >= beat_ns_) {
      // To remove what is not there changes nothing.
      script_.push_back({.kind = StoreRequest::Kind::kRemove,
                         .key = Key(StrCat("beat/", node_rank_)),
                         .deadline_ns = kForever});
      beating_ = true;
      beat_ns_ = MonotonicNs() + kBeatNs;
    }
    if (!asking_ && !script_.empty()) {
      asked_ = std::move(script_.front());
      script_.pop_front();
      speaker_->Start(asked_);
      asking_ = true;
    }
    speaker_->Step();
    if (!asking_ || !speaker_->done()) return;
    asking_ = false;
    if (const StoreReply reply = speaker_->TakeReply(); !reply.status.ok()) {
      Fail(reply.status, stage_ == Stage::kGathering
                             ? StrCat("waiting for ", Missing(), " before ",
                                      round_ == 0 ? "the start" : StrCat("restart ", round_), ": ")
                             : "telling the other nodes: ");
    } else if (stage_ == Stage::kGathering) {
      TakeHeard(reply);
    }
  }
}

void Agents::TakeHeard(const StoreReply& reply) {
  if (asked_.kind == StoreRequest::Kind::kAdd && reply.number > 1) {
    Refuse(StrCat("node ", node_rank_, " is there ", reply.number,
                  " times; each weftrun has a --node-rank of its own"));
  } else if (asked_.kind == StoreRequest::Kind::kWait &&
             asked_.key == Key(StrCat("go/", node_rank_))) {
    TakeGo(reply.value);
  } else if (asked_.kind == StoreRequest::Kind::kWait) {
    TakeReady(reply.value);
  }
}

// Of the next node; with the last one all get their numbers.
void Agents::TakeReady(const std::string& value) {
  const size_t node = ranks_of_.size();
  int ranks = 0;
  int nodes = 0;
  if (!ParsePair(value, 1, &ranks, &nodes) || ranks > kRanksPerNodeMax) {
    return Refuse(StrCat("node ", node, " says what makes no sense: ", value));
  }
  if (nodes != node_count_) {
    return Refuse(
        StrCat("node ", node, " was started with --nnodes ", nodes, ", node 0 with ", node_count_));
  }
  ranks_of_.push_back(ranks);
  if (ranks_of_.size() < static_cast<size_t>(node_count_)) return;
  const int size = std::accumulate(ranks_of_.begin(), ranks_of_.end(), 0);
  const StoreRequest own_go = std::move(script_.back());
  script_.clear();
  for (int first = 0, other = 0; other < node_count_; ++other) {
    Set(StrCat("go/", other), StrCat(first, " ", size));
    first += ranks_of_[static_cast<size_t>(other)];
  }
  script_.push_back(own_go);
}

void Agents::TakeGo(const std::string& value) {
  int first = 0;
  int size = 0;
  if (!ParsePair(value, 0, &first, &size) || first > size - ranks_per_node_) {
    return Refuse(StrCat("node 0 says what makes no sense: ", value));
  }
  place_ = {.first_rank = first, .size = size};
  stage_ = Stage::kRunning;
}

// Of a weftrun that was killed, or whose machine has gone, nobody else would tell.
void Agents::FindLostNodes() {
  if (store_ == nullptr) return;
  for (const int32_t label : store_->TakeGone()) {
    if (label > LabelOf(0)) continue;  // a rank, or of a round before
    gone_.insert(label);
    const int node = NodeOf(label);
    if (node == node_rank_ || node >= node_count_ || label != LabelOf(node) ||
        store_->Holds(Key("verdict")) || store_->Holds(Key(StrCat("done/", node)))) {
      continue;
    }
    Refuse(StrCat("the weftrun of node ", node, " has ended or cannot be reached"));
  }
}

// All are to end because of it.
void Agents::Refuse(std::string reason) {
  SayFailed({.exit_code = 1, .reason = std::move(reason)});
}

}  // namespace weft
