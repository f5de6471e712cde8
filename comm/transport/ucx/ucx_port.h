// A rank's own end of UCX: what others reach it by, opened before it is known who they are.
//
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<UcxPort> port, UcxPort::Open({.transports = "tcp"}));
//   self.ucx = port->address();                                      // told to the others
//   ... UcxTransport::Make(seams, std::move(port), settings) ...
//
// Thread-safety: none; the transport's lock. A forked child leaves the port alone: it is the parent's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <unistd.h>

#include "absl/status/statusor.h"
#include "comm/transport/ucx/ucx_module.h"

namespace weft {

// What comes in while the port is moved.
class UcxListener {
 public:
  virtual ~UcxListener() = default;

  // Neither may call the port.
  virtual void Heard(std::string_view bytes) = 0;
  virtual void Lost(uint64_t number, std::string_view why) = 0;
};

class UcxPort {
 public:
  struct Settings {
    std::string transports;  // UCX's names; "": those that UCX_TLS says, or all
  };

  // Longer ones are refused: every rank has those of all.
  static constexpr size_t kAddressBytesMax = 1024;

  // UNSUPPORTED without the module (load_ucx.h), or if UCX has nothing that reaches others; SYSTEM_ERROR if it fails.
  static absl::StatusOr<std::unique_ptr<UcxPort>> Open(const Settings& settings);
  static absl::StatusOr<std::unique_ptr<UcxPort>> OpenWith(const UcxModule& module,
                                                           const Settings& settings);
  UcxPort(const UcxPort&) = delete;
  UcxPort& operator=(const UcxPort&) = delete;
  ~UcxPort();

  const std::string& address() const { return address_; }

  const UcxModule& module() const { return module_; }

  UcxWorker* worker() const { return worker_; }

  bool here() const { return pid_ == getpid(); }

  // nullptr: nobody; what comes then is lost.
  void SetListener(UcxListener* listener) { listener_ = listener; }

  // True if anything was done.
  bool Progress() { return module_.progress(worker_) > 0; }

  absl::StatusOr<UcxPeer*> Connect(const std::string& address, uint64_t number);

 private:
  explicit UcxPort(const UcxModule& module) : module_(module) {}

  const UcxModule& module_;
  const pid_t pid_ = getpid();
  UcxWorker* worker_ = nullptr;
  UcxListener* listener_ = nullptr;
  std::string address_;
};

}  // namespace weft
