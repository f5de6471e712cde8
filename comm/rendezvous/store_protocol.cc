// Before the verdict the other side may be anybody, so messages have fixed lengths and no length that they state is believed.
// Of a frame, the length is bounded before it is waited for, and nothing else is used before the tag is right. A frame's number
// is in its tag but not in its bytes: both sides count, so no frame can be left out, repeated or moved.
#include "comm/rendezvous/store_protocol.h"

#include <algorithm>

#include "base/check.h"
#include "base/keyed_hash.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wire.h"

namespace weft {
namespace {

constexpr uint16_t kFlagNeedsSecret = 1;

std::string_view View(const Nonce& nonce) {
  return std::string_view(reinterpret_cast<const char*>(nonce.data()), nonce.size());
}

Nonce ToNonce(std::string_view bytes) {
  Nonce nonce = {};
  std::copy_n(bytes.begin(), std::min(bytes.size(), nonce.size()), nonce.begin());
  return nonce;
}

}  // namespace

const char* RefusalName(Refusal refusal) {
  constexpr const char* kNames[kRefusalCount] = {"none",           "garbage",  "wrong version",
                                                 "wrong secret",   "too slow", "gave way to newer",
                                                 "another user's", "bad frame"};
  const auto index = static_cast<size_t>(refusal);
  return index < kRefusalCount ? kNames[index] : "unknown";
}

std::string EncodeServerHello(const ServerHello& hello) {
  WireWriter writer;
  writer.Bytes(kStoreMagic);
  writer.U16(hello.version);
  writer.U16(hello.needs_secret ? kFlagNeedsSecret : 0);
  writer.U32(0);
  writer.Bytes(View(hello.nonce));
  WEFT_CHECK(writer.data().size() == kServerHelloBytes);
  return writer.Take();
}

absl::StatusOr<ServerHello> DecodeServerHello(std::string_view bytes) {
  WireReader reader(bytes);
  const std::string_view magic = reader.Bytes(kStoreMagic.size());
  ServerHello hello;
  hello.version = reader.U16();
  hello.needs_secret = (reader.U16() & kFlagNeedsSecret) != 0;
  reader.U32();
  hello.nonce = ToNonce(reader.Bytes(kNonceBytes));
  if (!reader.Finished() || magic != kStoreMagic) {
    return MakeError(WEFT_CORRUPT, StrCat("what listens there is not a weft store, it sent ",
                                          GuessProtocol(bytes), "; check the address and port"));
  }
  return hello;
}

std::string EncodeClientFields(const ClientHello& hello) {
  WireWriter writer;
  writer.Bytes(kStoreMagic);
  writer.U16(hello.version);
  writer.U16(0);
  writer.I32(hello.rank);
  writer.I32(hello.size);
  writer.U32(hello.connection);
  writer.Bytes(View(hello.nonce));
  WEFT_CHECK(writer.data().size() == kClientFieldsBytes);
  return writer.Take();
}

absl::StatusOr<ClientHello> DecodeClientFields(std::string_view bytes) {
  WireReader reader(bytes);
  reader.Bytes(kStoreMagic.size());
  ClientHello hello;
  hello.version = reader.U16();
  reader.U16();
  hello.rank = reader.I32();
  hello.size = reader.I32();
  hello.connection = reader.U32();
  hello.nonce = ToNonce(reader.Bytes(kNonceBytes));
  if (!reader.Finished()) return MakeError(WEFT_CORRUPT, "a client's hello has a wrong length");
  return hello;
}

std::string EncodeVerdict(const Verdict& verdict) {
  WireWriter writer;
  writer.Bytes(kStoreMagic);
  writer.U16(verdict.version);
  writer.U16(static_cast<uint16_t>(verdict.refusal));
  writer.U32(0);
  std::string proof = verdict.proof;
  proof.resize(kProofBytes, '\0');
  writer.Bytes(proof);
  WEFT_CHECK(writer.data().size() == kVerdictBytes);
  return writer.Take();
}

absl::StatusOr<Verdict> DecodeVerdict(std::string_view bytes) {
  WireReader reader(bytes);
  const std::string_view magic = reader.Bytes(kStoreMagic.size());
  Verdict verdict;
  verdict.version = reader.U16();
  const uint16_t refusal = reader.U16();
  reader.U32();
  verdict.proof = std::string(reader.Bytes(kProofBytes));
  if (!reader.Finished() || magic != kStoreMagic || refusal >= kRefusalCount) {
    return MakeError(WEFT_CORRUPT, "the store's verdict on the handshake is malformed");
  }
  verdict.refusal = static_cast<Refusal>(refusal);
  return verdict;
}

SessionKeys MakeSessionKeys(std::string_view secret, std::string_view server_hello,
                            std::string_view client_fields) {
  const std::string_view server_nonce = server_hello.substr(server_hello.size() - kNonceBytes);
  const std::string_view client_nonce = client_fields.substr(client_fields.size() - kNonceBytes);
  const std::string salt = StrCat(server_nonce, client_nonce);
  const std::string transcript = StrCat(server_hello, client_fields);
  const std::string client_proof_key = DeriveKey(secret, salt, "weft store 1 client proof");
  const std::string server_proof_key = DeriveKey(secret, salt, "weft store 1 server proof");
  SessionKeys keys;
  keys.client_proof = KeyedHash(client_proof_key, transcript);
  keys.server_proof = KeyedHash(server_proof_key, StrCat(transcript, keys.client_proof));
  keys.client_key = DeriveKey(secret, salt, "weft store 1 client frames");
  keys.server_key = DeriveKey(secret, salt, "weft store 1 server frames");
  return keys;
}

Refusal CheckPrefix(std::string_view bytes) {
  const size_t magic_bytes = std::min(bytes.size(), kStoreMagic.size());
  if (bytes.substr(0, magic_bytes) != kStoreMagic.substr(0, magic_bytes)) return Refusal::kGarbage;
  if (bytes.size() < kStorePrefixBytes) return Refusal::kNone;
  WireReader reader(bytes.substr(kStoreMagic.size()));
  return reader.U16() == kStoreVersion ? Refusal::kNone : Refusal::kWrongVersion;
}

const char* GuessProtocol(std::string_view bytes) {
  for (const char* method : {"GET ", "POST ", "HEAD ", "PUT ", "OPTIONS ", "CONNECT ", "HTTP/"}) {
    if (bytes.starts_with(method)) return "HTTP";
  }
  if (bytes.starts_with("SSH-")) return "SSH";
  if (bytes.starts_with("\x16\x03")) return "TLS";
  return bytes.empty() ? "nothing" : "unknown bytes";
}

void FrameSealer::Seal(const Frame& frame, std::string* out) {
  WEFT_CHECK(frame.body.size() <= kFrameBodyBytesMax);
  WireWriter writer;
  writer.U32(static_cast<uint32_t>(frame.body.size()));
  writer.U16(static_cast<uint16_t>(frame.type));
  writer.U16(0);
  writer.U32(epoch_);
  writer.U64(frame.request);
  WEFT_CHECK(writer.data().size() == kFrameHeaderBytes);
  writer.Bytes(frame.body);
  WireWriter number;
  number.U64(sequence_++);
  const std::string tag = KeyedHash(key_, StrCat(number.data(), writer.data()));
  out->append(writer.data());
  out->append(tag, 0, kTagBytes);
}

absl::StatusOr<bool> FrameOpener::Open(std::string* in, Frame* frame) {
  if (in->size() < kFrameHeaderBytes) return false;
  WireReader header(std::string_view(*in).substr(0, kFrameHeaderBytes));
  const size_t body_bytes = header.U32();
  const uint16_t type = header.U16();
  header.U16();
  const uint32_t epoch = header.U32();
  const uint64_t request = header.U64();
  if (body_bytes > kFrameBodyBytesMax) {
    return MakeError(WEFT_CORRUPT, StrCat("a store frame claims ", body_bytes,
                                          " bytes, allowed are ", kFrameBodyBytesMax));
  }
  const size_t sealed_bytes = kFrameHeaderBytes + body_bytes;
  if (in->size() < sealed_bytes + kTagBytes) return false;
  const std::string_view sealed = std::string_view(*in).substr(0, sealed_bytes);
  WireWriter number;
  number.U64(sequence_++);
  const std::string tag = KeyedHash(key_, StrCat(number.data(), sealed));
  if (!SameProof(std::string_view(tag).substr(0, kTagBytes),
                 std::string_view(*in).substr(sealed_bytes, kTagBytes))) {
    return MakeError(WEFT_CORRUPT, "a store frame has a wrong tag: changed, replayed or reordered");
  }
  if (epoch != epoch_) {
    return MakeError(WEFT_CORRUPT, StrCat("a store frame is of membership epoch ", epoch,
                                          ", this store serves ", epoch_));
  }
  frame->type = static_cast<FrameType>(type);
  frame->request = request;
  frame->body = std::string(sealed.substr(kFrameHeaderBytes));
  in->erase(0, sealed_bytes + kTagBytes);
  return true;
}

}  // namespace weft
