// Whether this machine has RDMA adapters that this process may use.
//
//   if (HasRdmaDevice()) ... UcxPort::Open({.transports = kUcxRdmaTransports})
//
// Thread-safety: any thread.
#pragma once

#include <string>

namespace weft {

// UCX's name of all that such adapters carry, InfiniBand and RoCE.
inline constexpr const char* kUcxRdmaTransports = "ib";

// One has a port that is up. `root`: in whose folders sys and dev it is looked for.
bool HasRdmaDevice(const std::string& root = "");

}  // namespace weft
