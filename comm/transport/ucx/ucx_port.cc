#include "comm/transport/ucx/ucx_port.h"

#include <utility>

#include "base/status.h"
#include "comm/transport/ucx/load_ucx.h"
#include "fmt/format.h"

namespace weft {

absl::StatusOr<std::unique_ptr<UcxPort>> UcxPort::Open(const Settings& settings) {
  WEFT_ASSIGN_OR_RETURN(const UcxModule* const module, LoadUcxModule());
  return OpenWith(*module, settings);
}

absl::StatusOr<std::unique_ptr<UcxPort>> UcxPort::OpenWith(const UcxModule& module,
                                                           const Settings& settings) {
  std::unique_ptr<UcxPort> port(new UcxPort(module));
  const UcxOpening opening{
      .events = {.owner = port.get(),
                 .heard =
                     [](void* owner, const void* bytes, size_t count) {
                       UcxListener* const listener = static_cast<UcxPort*>(owner)->listener_;
                       if (listener != nullptr)
                         listener->Heard({static_cast<const char*>(bytes), count});
                     },
                 .lost =
                     [](void* owner, uint64_t number, const char* why) {
                       UcxListener* const listener = static_cast<UcxPort*>(owner)->listener_;
                       if (listener != nullptr) listener->Lost(number, why);
                     }},
      .transports = settings.transports.empty() ? nullptr : settings.transports.c_str()};
  UcxReason why = {};
  port->worker_ = module.open(&opening, &why);
  if (port->worker_ == nullptr) {
    return MakeError(
        WEFT_UNSUPPORTED,
        fmt::format("{} cannot be used over {}: {}", module.library,
                    settings.transports.empty() ? "what UCX_TLS says" : settings.transports,
                    why.text));
  }
  size_t bytes = 0;
  const void* const address = module.address(port->worker_, &bytes);
  if (bytes > kAddressBytesMax) {
    return MakeError(
        WEFT_UNSUPPORTED,
        fmt::format("{} cannot be used: this rank's address has {} bytes, at most {} can "
                    "be told to others; name fewer devices by UCX_NET_DEVICES",
                    module.library, bytes, kAddressBytesMax));
  }
  port->address_.assign(static_cast<const char*>(address), bytes);
  return port;
}

UcxPort::~UcxPort() {
  if (worker_ != nullptr && here()) module_.close(worker_);
}

absl::StatusOr<UcxPeer*> UcxPort::Connect(const std::string& address, uint64_t number) {
  UcxReason why = {};
  UcxPeer* const peer = module_.connect(worker_, address.data(), address.size(), number, &why);
  if (peer != nullptr) return peer;
  return MakeError(WEFT_UNREACHABLE,
                   fmt::format("no connection with rank {} could be made: {}", number, why.text));
}

}  // namespace weft
