#include "comm/rendezvous/link_handshake.h"

#include <utility>

#include "base/keyed_hash.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {

LinkHandshake LinkHandshake::Dialled(std::string secret, const LinkClaim& claim, Random& random) {
  return LinkHandshake(State::kServerHello, std::move(secret), claim, random);
}

LinkHandshake LinkHandshake::Accepted(std::string secret, Random& random) {
  return LinkHandshake(State::kGreet, std::move(secret), {}, random);
}

size_t LinkHandshake::wanted() const {
  switch (state_) {
    case State::kServerHello:
      return kServerHelloBytes;
    case State::kClientHello:
      return kClientHelloBytes;
    case State::kVerdict:
      return kVerdictBytes;
    case State::kGreet:
    case State::kDone:
      return 0;
  }
  return 0;
}

std::string LinkHandshake::TakeOutput() {
  return std::exchange(out_, "");
}

absl::Status LinkHandshake::Take(std::string* in) {
  switch (state_) {
    case State::kGreet:
      return Greet();
    case State::kServerHello:
      return TakeServerHello(in);
    case State::kClientHello:
      return TakeClientHello(in);
    case State::kVerdict:
      return TakeVerdict(in);
    case State::kDone:
      break;
  }
  return absl::OkStatus();
}

absl::Status LinkHandshake::Greet() {
  ServerHello hello;
  hello.needs_secret = true;
  WEFT_RETURN_IF_ERROR(random_->Fill(hello.nonce.data(), hello.nonce.size()));
  hello_ = EncodeServerHello(hello);
  out_ += hello_;
  state_ = State::kClientHello;
  return absl::OkStatus();
}

absl::Status LinkHandshake::TakeServerHello(std::string* in) {
  if (CheckPrefix(*in) == Refusal::kGarbage) {
    return MakeError(WEFT_CORRUPT, StrCat("who listens there speaks ", GuessProtocol(*in)));
  }
  if (in->size() < kServerHelloBytes) return absl::OkStatus();
  WEFT_ASSIGN_OR_RETURN(const ServerHello server, DecodeServerHello(*in));
  if (server.version != kStoreVersion) {
    return MakeError(WEFT_UNSUPPORTED, "it speaks another version");
  }
  ClientHello hello{.rank = claim_.rank, .size = claim_.size, .connection = claim_.connection};
  WEFT_RETURN_IF_ERROR(random_->Fill(hello.nonce.data(), hello.nonce.size()));
  const std::string fields = EncodeClientFields(hello);
  keys_ = MakeSessionKeys(secret_, *in, fields);
  out_ += fields + keys_.client_proof;
  in->clear();
  state_ = State::kVerdict;
  return absl::OkStatus();
}

absl::Status LinkHandshake::TakeClientHello(std::string* in) {
  if (CheckPrefix(*in) != Refusal::kNone) {
    return MakeError(WEFT_CORRUPT, StrCat("a stranger speaks ", GuessProtocol(*in)));
  }
  if (in->size() < kClientHelloBytes) return absl::OkStatus();
  const std::string fields = in->substr(0, kClientFieldsBytes);
  const absl::StatusOr<ClientHello> hello = DecodeClientFields(fields);
  keys_ = MakeSessionKeys(secret_, hello_, fields);
  if (!hello.ok() || !SameProof(in->substr(kClientFieldsBytes), keys_.client_proof)) {
    return MakeError(WEFT_AUTH_FAILED, "a stranger does not know the job's secret");
  }
  in->clear();
  claim_ = {.rank = hello->rank, .size = hello->size, .connection = hello->connection};
  out_ += EncodeVerdict({.proof = keys_.server_proof});
  state_ = State::kDone;
  return absl::OkStatus();
}

absl::Status LinkHandshake::TakeVerdict(std::string* in) {
  if (in->size() < kVerdictBytes) return absl::OkStatus();
  const absl::StatusOr<Verdict> verdict = DecodeVerdict(*in);
  if (!verdict.ok() || verdict->refusal != Refusal::kNone ||
      !SameProof(verdict->proof, keys_.server_proof)) {
    return MakeError(WEFT_AUTH_FAILED, "it does not know the job's secret");
  }
  in->clear();
  state_ = State::kDone;
  return absl::OkStatus();
}

}  // namespace weft
