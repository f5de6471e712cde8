#include "absl/strings/numbers.h"
#include "base/net.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

// sun_path of an abstract socket without its leading NUL.
constexpr size_t kUnixNameBytesMax = 107;
constexpr size_t kHostBytesMax = 253;

absl::Status Malformed(std::string_view text) {
  return MakeError(WEFT_INVALID_ARGUMENT,
                   StrCat("\"", text.substr(0, 128),
                          "\" is not an endpoint: expected unix:@name or tcp:host:port"));
}

}  // namespace

std::string Endpoint::ToString() const {
  if (kind == Kind::kUnix) return StrCat("unix:@", host);
  if (host.find(':') != std::string::npos) return StrCat("tcp:[", host, "]:", port);
  return StrCat("tcp:", host, ":", port);
}

absl::StatusOr<Endpoint> ParseEndpoint(std::string_view text) {
  constexpr std::string_view kUnix = "unix:@";
  constexpr std::string_view kTcp = "tcp:";
  Endpoint endpoint;
  if (text.starts_with(kUnix)) {
    endpoint.host = std::string(text.substr(kUnix.size()));
    if (endpoint.host.empty() || endpoint.host.size() > kUnixNameBytesMax) return Malformed(text);
    return endpoint;
  }
  if (!text.starts_with(kTcp)) return Malformed(text);
  endpoint.kind = Endpoint::Kind::kTcp;
  const std::string_view rest = text.substr(kTcp.size());
  const size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos) return Malformed(text);
  std::string_view host = rest.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  uint32_t port = 0;
  if (host.empty() || host.size() > kHostBytesMax ||
      !absl::SimpleAtoi(ToAbsl(rest.substr(colon + 1)), &port) || port > 65535) {
    return Malformed(text);
  }
  endpoint.host = std::string(host);
  endpoint.port = static_cast<uint16_t>(port);
  return endpoint;
}

}  // namespace weft
