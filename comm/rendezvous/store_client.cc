// What may pass is tried again until the deadline; what will not, such as a wrong secret or version, ends the client at once.
// Writing never fails here: a broken connection shows when it is read, and what is left to read may be the server's reason.
// The answer to a request that was given up still comes, so answers are matched by number and not by order.
#include "comm/rendezvous/store_client.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/keyed_hash.h"
#include "base/refused_call.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wire.h"

namespace weft {
namespace {

constexpr int64_t kFirstPauseNs = 2'000'000;
constexpr int64_t kLongestPauseNs = 200'000'000;
constexpr size_t kClientReadBytes = 64 * 1024;
constexpr size_t kAnswersMax = 16;

std::string EncodeRequest(const StoreRequest& request, bool may_wait, FrameType* type) {
  WireWriter writer;
  writer.Text(request.key);
  if (request.kind == StoreRequest::Kind::kSet) {
    *type = FrameType::kSet;
    writer.Text(request.value);
  } else if (request.kind == StoreRequest::Kind::kAdd) {
    *type = FrameType::kAdd;
    writer.I64(request.delta);
  } else if (request.kind == StoreRequest::Kind::kRemove) {
    *type = FrameType::kRemove;
  } else {
    *type = FrameType::kWait;
    writer.U8(may_wait ? 1 : 0);
  }
  return writer.Take();
}

std::string Describe(const StoreRequest& request) {
  switch (request.kind) {
    case StoreRequest::Kind::kSet:
      return StrCat("set ", request.key);
    case StoreRequest::Kind::kAdd:
      return StrCat("add to ", request.key);
    case StoreRequest::Kind::kRemove:
      return StrCat("remove ", request.key);
    default:
      return StrCat("wait for ", request.key);
  }
}

}  // namespace

StoreClient::StoreClient(const Seams& seams, StoreClientOptions options)
    : seams_(seams), options_(std::move(options)), pause_ns_(kFirstPauseNs) {
  WEFT_CHECK(!options_.endpoints.empty());
}

StoreClient::~StoreClient() {
  if (state_ == State::kReady && out_.empty()) {
    sealer_->Seal({.type = FrameType::kLeave, .request = ++request_number_}, &out_);
    Flush();
  }
  CloseStream();
}

void StoreClient::Start(StoreRequest request) {
  WEFT_CHECK(!request_.has_value());
  reply_.reset();
  if (absl::Status status = CheckRequest(request); !status.ok()) {
    Finish({.status = std::move(status)});
    return;
  }
  const int64_t now_ns = seams_.clock->NowNs();
  answer_deadline_ns_ = request.deadline_ns > now_ns ? request.deadline_ns : now_ns + kGraceNs;
  request_ = std::move(request);
  ++request_number_;
  sent_ = false;
  if (state_ == State::kFailed) Finish({.status = failure_});
}

StoreReply StoreClient::TakeReply() {
  WEFT_CHECK(reply_.has_value());
  StoreReply reply = *std::move(reply_);
  reply_.reset();
  return reply;
}

void StoreClient::AppendPollItems(std::vector<PollItem>* items) const {
  if (stream_ < 0) return;
  const bool connecting = state_ == State::kConnecting;
  items->push_back(
      {.handle = stream_, .want_read = !connecting, .want_write = connecting || !out_.empty()});
}

int64_t StoreClient::NextWakeNs() const {
  int64_t wake_ns = std::numeric_limits<int64_t>::max();
  if (request_) wake_ns = answer_deadline_ns_;
  if (state_ == State::kReady || state_ == State::kFailed) return wake_ns;
  wake_ns = std::min(wake_ns, options_.connect_deadline_ns);
  return std::min(wake_ns, state_ == State::kPause ? pause_until_ns_ : attempt_deadline_ns_);
}

void StoreClient::Step() {
  // Each turn either moves the machine on or ends the step.
  while (Advance()) {
  }
  CheckDeadlines();
}

// Does what is possible now; true if the machine came to another state.
bool StoreClient::Advance() {
  const State before = state_;
  switch (state_) {
    case State::kPause:
      if (seams_.clock->NowNs() >= pause_until_ns_) Connect();
      break;
    case State::kConnecting: {
      PollItem item{.handle = stream_, .want_write = true};
      const absl::Status polled = seams_.net->Poll({&item, 1}, std::numeric_limits<int64_t>::min());
      if (!polled.ok()) {
        Retry(std::string(FromAbsl(polled.message())));
      } else if (item.writable) {
        const absl::Status finished = seams_.net->FinishConnect(stream_);
        if (finished.ok()) {
          state_ = State::kHello;
        } else {
          Retry(ConnectAnswer(finished), NobodyListens(finished));
        }
      }
      break;
    }
    case State::kHello:
      ReadHello();
      break;
    case State::kVerdict:
      Flush();
      if (state_ == State::kVerdict) ReadVerdict();
      break;
    case State::kReady:
      if (request_ && !sent_) SendRequest();
      Flush();
      ReadFrames();
      break;
    case State::kFailed:
      break;
  }
  return state_ != before && state_ != State::kPause;
}

// --- Connecting ----------------------------------------------------------------------------------

void StoreClient::Connect() {
  const int64_t now_ns = seams_.clock->NowNs();
  attempt_deadline_ns_ = now_ns + kAttemptNs;
  const absl::StatusOr<int> stream = seams_.net->Connect(endpoint());
  if (!stream.ok()) {
    const bool hopeless =
        ResultOf(stream.status()) == WEFT_INVALID_ARGUMENT || IsRefusedCall(stream.status());
    hopeless ? Fail(stream.status())
             : Retry(ConnectAnswer(stream.status()), NobodyListens(stream.status()));
    return;
  }
  stream_ = *stream;
  if (options_.unanswered_ns > 0) seams_.net->EndUnanswered(stream_, options_.unanswered_ns);
  state_ = State::kConnecting;
}

// This attempt failed, which may pass: `answer` is what it was answered.
void StoreClient::Retry(std::string answer, bool nobody_listens) {
  CloseStream();
  refusals_ = nobody_listens ? refusals_ + 1 : 0;
  if (!options_.gone_hint.empty() && refusals_ >= options_.endpoints.size()) {
    Fail(MakeError(WEFT_UNREACHABLE,
                   StrCat("nobody serves ", Where(), " any more: ", options_.gone_hint)));
    return;
  }
  auto known = std::find_if(answers_.begin(), answers_.end(), [&](const Answer& one) {
    return one.endpoint == endpoint_index() && one.text == answer;
  });
  if (known == answers_.end()) {
    if (answers_.size() == kAnswersMax) answers_.erase(answers_.begin());
    known = answers_.insert(answers_.end(), {endpoint_index(), std::move(answer), 0});
  }
  ++known->count;
  ++attempt_;
  // Ranks that were refused together shall not come back together.
  uint32_t noise = 0;
  if (!seams_.random->Fill(&noise, sizeof(noise)).ok()) noise = static_cast<uint32_t>(attempt_);
  pause_until_ns_ = seams_.clock->NowNs() + pause_ns_ / 2 + noise % pause_ns_;
  pause_ns_ = std::min(2 * pause_ns_, kLongestPauseNs);
  state_ = State::kPause;
}

void StoreClient::ReadHello() {
  const PeerIdentity peer = seams_.net->Peer(stream_);
  if (options_.server_uid >= 0 && peer.uid >= 0 && peer.uid != options_.server_uid) {
    Fail(MakeError(WEFT_AUTH_FAILED,
                   StrCat("the store at ", endpoint().ToString(), " belongs to user ", peer.uid,
                          ", not to this process's user ", options_.server_uid)));
    return;
  }
  if (!Receive(kServerHelloBytes - in_.size())) return;
  if (CheckPrefix(in_) != Refusal::kGarbage && in_.size() < kServerHelloBytes) return;
  const absl::StatusOr<ServerHello> server = DecodeServerHello(in_);
  if (!server.ok()) {
    Fail(Annotate(server.status(), StrCat("could not join through ", Where(), ": ")));
    return;
  }
  ClientHello hello{.rank = options_.rank, .size = options_.size};
  const absl::Status random = seams_.random->Fill(hello.nonce.data(), hello.nonce.size());
  const std::string fields = EncodeClientFields(hello);
  if (!random.ok()) {
    Fail(random);
    return;
  }
  keys_ = MakeSessionKeys(options_.secret, in_, fields);
  out_ = fields + keys_.client_proof;
  server_hello_ = std::exchange(in_, "");
  state_ = State::kVerdict;
  if (server->version != kStoreVersion) {
    Flush();  // so that the server can print both versions too
    Fail(Refused({.version = server->version, .refusal = Refusal::kWrongVersion}));
  }
}

void StoreClient::ReadVerdict() {
  if (!Receive(kVerdictBytes - in_.size()) || in_.size() < kVerdictBytes) return;
  const absl::StatusOr<Verdict> verdict = DecodeVerdict(in_);
  if (!verdict.ok()) {
    Fail(Annotate(verdict.status(), StrCat("could not join through ", Where(), ": ")));
    return;
  }
  if (verdict->refusal != Refusal::kNone || !SameProof(verdict->proof, keys_.server_proof)) {
    Fail(Refused(*verdict));
    return;
  }
  in_.clear();
  opener_.emplace(keys_.server_key, options_.epoch);
  sealer_.emplace(keys_.client_key, options_.epoch);
  keys_ = {};
  state_ = State::kReady;
}

absl::Status StoreClient::Refused(const Verdict& verdict) const {
  const std::string where = Where();
  const absl::StatusOr<ServerHello> server = DecodeServerHello(server_hello_);
  if (verdict.refusal == Refusal::kWrongVersion || verdict.version != kStoreVersion) {
    return MakeError(WEFT_UNSUPPORTED, StrCat(where, " speaks version ", verdict.version,
                                              " of the store protocol, this process version ",
                                              kStoreVersion, "; use the same weft on every rank"));
  }
  if (verdict.refusal == Refusal::kForeignUser) {
    return MakeError(WEFT_AUTH_FAILED,
                     StrCat(where, " is another user's: it refused this process"));
  }
  std::string advice =
      "the job secrets differ; give every rank the same secret, and check that "
      "this address does not belong to another job";
  if (server.ok() && server->needs_secret && options_.secret.empty()) {
    advice = "it wants the job secret and this process has none; set WEFT_JOB_SECRET_FILE";
  } else if (server.ok() && !server->needs_secret && !options_.secret.empty()) {
    advice = "it has no job secret and this process has one; give every rank the same secret";
  }
  return MakeError(WEFT_AUTH_FAILED, StrCat("could not join through ", where, ": ", advice));
}

std::string StoreClient::Host() const {
  return options_.host_hint.empty() ? "its process" : options_.host_hint;
}

std::string StoreClient::Where() const {
  return StrCat("the store at ", endpoint().ToString(), options_.host_hint.empty() ? "" : " of ",
                options_.host_hint);
}

// "Connection refused 14 times"; where there are several addresses, each one's behind it.
std::string StoreClient::Answers() const {
  std::string text;
  size_t last = options_.endpoints.size();
  for (size_t i = 0; i < options_.endpoints.size(); ++i) {
    for (const Answer& answer : answers_) {
      if (answer.endpoint != i) continue;
      if (!text.empty()) text += i == last ? ", " : "; ";
      if (i != last && options_.endpoints.size() > 1)
        text += StrCat("at ", options_.endpoints[i].ToString(), " ");
      text +=
          StrCat(answer.text, answer.count == 1 ? " once" : StrCat(" ", answer.count, " times"));
      last = i;
    }
  }
  return text.empty() ? "no answer yet" : text;
}

std::string StoreClient::Unreached() const {
  const std::string how =
      options_.address_hint.empty() ? "" : StrCat(" (by ", options_.address_hint, ")");
  return StrCat(Where(), how, ": ", Answers(), "; check that ", Host(),
                " was started and can be reached from here");
}

void StoreClient::CheckDeadlines() {
  const int64_t now_ns = seams_.clock->NowNs();
  if (state_ != State::kReady && state_ != State::kFailed) {
    if (now_ns >= options_.connect_deadline_ns) {
      Fail(MakeError(WEFT_TIMEOUT, StrCat("could not reach before the deadline ", Unreached())));
      return;
    }
    if (state_ != State::kPause && now_ns >= attempt_deadline_ns_) Retry("no answer within 2.5 s");
  }
  if (request_ && now_ns >= answer_deadline_ns_) {
    const std::string what = Describe(*request_);
    const bool waiting = sent_ && state_ == State::kReady;
    if (waiting) {
      const Frame cancel{.type = FrameType::kCancel, .request = request_number_};
      sealer_->Seal(cancel, &out_);
      Flush();
    }
    // A key that was waited for may just not have come; everything else, also a mere look, has an answer at once.
    const bool waited = waiting && request_->kind == StoreRequest::Kind::kWait &&
                        request_->deadline_ns == answer_deadline_ns_;
    Finish({.status = MakeError(
                WEFT_TIMEOUT, StrCat("could not ", what, " at ", Where(), " before the deadline")),
            .unanswered = !waited});
  }
}

void StoreClient::Fail(absl::Status status) {
  CloseStream();
  state_ = State::kFailed;
  failure_ = std::move(status);
  if (request_) Finish({.status = failure_});
}

// --- Bytes ---------------------------------------------------------------------------------------

void StoreClient::CloseStream() {
  if (stream_ >= 0) seams_.net->Close(std::exchange(stream_, -1));
  in_.clear();
  out_.clear();
}

bool StoreClient::Receive(size_t bytes_max) {
  const size_t before = in_.size();
  in_.resize(before + bytes_max);
  const IoResult result = seams_.net->Read(stream_, in_.data() + before, bytes_max);
  in_.resize(before + (result.state == IoState::kDone ? result.bytes : 0));
  if (result.state == IoState::kDone) return true;
  if (result.state == IoState::kWouldBlock) return false;
  if (state_ == State::kReady) {
    Fail(MakeError(WEFT_UNREACHABLE, StrCat("lost ", Where(), ": the connection was closed; ",
                                            Host(), " has probably ended")));
  } else {
    Retry("the connection was closed during the handshake");
  }
  return false;
}

void StoreClient::Flush() {
  while (!out_.empty() && stream_ >= 0) {
    const IoResult result = seams_.net->Write(stream_, out_.data(), out_.size());
    // A broken connection shows when it is read; what is left to read there may say why.
    if (result.state != IoState::kDone) return;
    out_.erase(0, result.bytes);
  }
}

// --- Requests ------------------------------------------------------------------------------------

void StoreClient::SendRequest() {
  const bool may_wait = request_->deadline_ns > seams_.clock->NowNs();
  Frame frame{.request = request_number_};
  frame.body = EncodeRequest(*request_, may_wait, &frame.type);
  sealer_->Seal(frame, &out_);
  sent_ = true;
}

void StoreClient::ReadFrames() {
  while (state_ == State::kReady && Receive(kClientReadBytes)) {
    Frame frame;
    while (state_ == State::kReady) {
      const absl::StatusOr<bool> complete = opener_->Open(&in_, &frame);
      if (!complete.ok()) {
        Fail(Annotate(complete.status(), StrCat(Where(), ": ")));
      } else if (*complete) {
        TakeFrame(frame);
      } else {
        break;
      }
    }
  }
}

void StoreClient::TakeFrame(const Frame& frame) {
  // The answer to a request that was given up: it crossed our kCancel.
  if (!request_ || !sent_ || frame.request != request_number_) return;
  StoreReply reply;
  WireReader reader(frame.body);
  const StoreRequest::Kind kind = request_->kind;
  bool matches = false;
  if (frame.type == FrameType::kRefused) {
    const auto result = static_cast<weft_result_t>(reader.I32());
    const std::string_view sentence = reader.Text(kStoreKeyBytesMax * 2);
    matches = reader.Finished() && result != WEFT_SUCCESS;
    reply.status = MakeError(result, StrCat(Where(), ": ", sentence));
  } else if (frame.type == FrameType::kNumber) {
    reply.number = reader.I64();
    matches = reader.Finished() && kind == StoreRequest::Kind::kAdd;
  } else if (frame.type == FrameType::kDone) {
    const bool done = kind == StoreRequest::Kind::kSet || kind == StoreRequest::Kind::kRemove;
    matches = done && frame.body.empty();
  } else if (frame.type == FrameType::kValue) {
    reply.value = frame.body;
    matches = kind == StoreRequest::Kind::kWait;
  } else if (frame.type == FrameType::kAbsent) {
    matches = kind == StoreRequest::Kind::kWait && frame.body.empty();
    reply.status = MakeError(WEFT_TIMEOUT, StrCat(Where(), " has no key ", request_->key));
  }
  if (!matches) {
    Fail(MakeError(WEFT_CORRUPT, StrCat(Where(), " gave an answer that does not fit \"",
                                        Describe(*request_), "\"")));
    return;
  }
  Finish(std::move(reply));
}

void StoreClient::Finish(StoreReply reply) {
  request_.reset();
  reply_ = std::move(reply);
}

}  // namespace weft
