// Numbers of CUDA's that weft itself has no name for.
#pragma once

#include "comm/device/driver/driver_types.h"

namespace weft::fake_cuda {

using namespace weft::cuda;  // NOLINT(google-build-using-namespace): the driver's own words

inline constexpr Result kMapFailed = 205;
inline constexpr Result kEccUncorrectable = 214;
inline constexpr Result kPeerAccessUnsupported = 217;
inline constexpr Result kInvalidHandle = 400;
inline constexpr Result kIllegalAddress = 700;
inline constexpr Result kLaunchOutOfResources = 701;
inline constexpr Result kPeerAccessAlreadyEnabled = 704;
inline constexpr Result kHostMemoryNotRegistered = 713;
inline constexpr Result kLaunchFailed = 719;
inline constexpr Result kUnknown = 999;

}  // namespace weft::fake_cuda
