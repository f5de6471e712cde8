// The secret that the ranks of one job share, and how a launcher hands it down: in an inherited file
// descriptor or a file that only its owner can read, never in the arguments or the environment.
//
//   WEFT_ASSIGN_OR_RETURN(std::string secret, MakeJobSecret());
//   WEFT_ASSIGN_OR_RETURN(UniqueFd fd, WrapJobSecret(secret));   // -> WEFT_JOB_SECRET_FD of the children
//   ...
//   WEFT_ASSIGN_OR_RETURN(std::string secret, ReadJobSecretFd(fd));   // in a child
//
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/fd.h"

namespace weft {

constexpr size_t kJobSecretBytesMin = 16;
constexpr size_t kJobSecretBytesMax = 1024;

// 32 bytes from the kernel.
absl::StatusOr<std::string> MakeJobSecret();

// A sealed anonymous file with `secret`; closed on exec, which the forked child undoes for itself.
absl::StatusOr<UniqueFd> WrapJobSecret(std::string_view secret);

// The whole content of an inherited descriptor. It stays open: other parts of the process may ask too.
absl::StatusOr<std::string> ReadJobSecretFd(int fd);

// The content of a file without white space at its end. Refuses a file that others may read.
absl::StatusOr<std::string> ReadJobSecretFile(const std::string& path);

}  // namespace weft
