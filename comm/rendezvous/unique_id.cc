#include "comm/rendezvous/unique_id.h"

#include <cstring>
#include <string_view>

#include "base/keyed_hash.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wire.h"

namespace weft {
namespace {

constexpr std::string_view kMagic = "weft-id\n";
constexpr uint16_t kVersion = 1;
constexpr size_t kSecretBytes = 32;
constexpr size_t kNameBytesMax = 24;
// Of an IPv6 address as text, and of a link-local one with its interface; in binary it would save 24.
constexpr size_t kAddressBytesMax = 46;
constexpr size_t kCheckBytes = 4;

absl::Status Malformed(std::string_view why) {
  return MakeError(
      WEFT_INVALID_ARGUMENT,
      StrCat("the unique id ", why, "; pass all 128 bytes from weft_unique_id_create() unchanged"));
}

std::string CheckSum(std::string_view secret, std::string_view bytes) {
  std::string hash = KeyedHash(secret, bytes);
  hash.resize(kCheckBytes);
  return hash;
}

void Short(WireWriter& writer, std::string_view text) {
  writer.U8(static_cast<uint8_t>(text.size()));
  writer.Bytes(text);
}

std::string Short(WireReader& reader, size_t bytes_max, bool* ok) {
  const size_t bytes = reader.U8();
  if (bytes > bytes_max) *ok = false;
  return std::string(reader.Bytes(bytes));
}

}  // namespace

absl::StatusOr<weft_unique_id_t> EncodeUniqueId(const UniqueId& id) {
  if (id.secret.size() != kSecretBytes || id.unix_socket.host.size() > kNameBytesMax ||
      id.tcp.host.size() > kAddressBytesMax) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("could not make a unique id: ", id.unix_socket.ToString(), " or ",
                            id.tcp.ToString(), " does not fit into it"));
  }
  WireWriter writer;
  writer.Bytes(kMagic);
  writer.U16(kVersion);
  writer.Bytes(id.secret);
  writer.U64(id.boot_hash);
  Short(writer, id.unix_socket.host);
  writer.U16(id.tcp.port);
  Short(writer, id.tcp.host);
  std::string bytes = writer.Take();
  bytes.resize(WEFT_UNIQUE_ID_BYTES - kCheckBytes, '\0');
  const std::string check = CheckSum(id.secret, bytes);
  bytes += check;
  weft_unique_id_t out;
  std::memcpy(out.internal, bytes.data(), sizeof(out.internal));
  return out;
}

absl::StatusOr<UniqueId> DecodeUniqueId(const weft_unique_id_t& id) {
  const std::string_view all(id.internal, sizeof(id.internal));
  const std::string_view bytes = all.substr(0, all.size() - kCheckBytes);
  WireReader reader(bytes);
  if (reader.Bytes(kMagic.size()) != kMagic) return Malformed("was not made by weft");
  const uint16_t version = reader.U16();
  if (version != kVersion) {
    return Malformed(StrCat("has version ", version, ", this weft makes ", kVersion));
  }
  UniqueId out;
  out.secret = std::string(reader.Bytes(kSecretBytes));
  const std::string check = CheckSum(out.secret, bytes);
  if (!SameProof(check, all.substr(bytes.size()))) return Malformed("was changed on its way");
  bool ok = true;
  out.boot_hash = reader.U64();
  out.unix_socket.host = Short(reader, kNameBytesMax, &ok);
  out.tcp.kind = Endpoint::Kind::kTcp;
  out.tcp.port = reader.U16();
  out.tcp.host = Short(reader, kAddressBytesMax, &ok);
  if (!reader.ok() || !ok) return Malformed("is malformed");
  return out;
}

}  // namespace weft
