#include "comm/rendezvous/job_secret.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/new_fd.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"

namespace weft {
namespace {

absl::Status CheckLength(size_t bytes, const std::string& where) {
  if (bytes >= kJobSecretBytesMin && bytes <= kJobSecretBytesMax) return absl::OkStatus();
  return MakeError(WEFT_INVALID_USAGE,
                   StrCat(where, " holds ", bytes, " bytes; a job secret has ", kJobSecretBytesMin,
                          " to ", kJobSecretBytesMax, ", for instance from: openssl rand -hex 32"));
}

absl::StatusOr<std::string> ReadAll(int fd, const std::string& where) {
  return ReadFile(fd, kJobSecretBytesMax + 1, StrCat("reading the job secret from ", where));
}

}  // namespace

absl::StatusOr<std::string> MakeJobSecret() {
  std::string secret(32, '\0');
  WEFT_RETURN_IF_ERROR(SystemSeams().random->Fill(secret.data(), secret.size()));
  return secret;
}

absl::StatusOr<UniqueFd> WrapJobSecret(std::string_view secret) {
  UniqueFd fd = CreateMemoryFile("weft-job-secret");
  if (!fd.valid()) return SystemError(errno, "making a file in memory for the job secret");
  const ssize_t n = write(fd.get(), secret.data(), secret.size());
  if (n != static_cast<ssize_t>(secret.size())) {
    return SystemError(n < 0 ? errno : ENOSPC, "writing the job secret to a file in memory");
  }
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
  if (fcntl(fd.get(), F_ADD_SEALS, seals) != 0) return SystemError(errno, "sealing the job secret");
  return fd;
}

absl::StatusOr<std::string> ReadJobSecretFd(int fd) {
  const std::string where = StrCat("inherited descriptor ", fd, " (WEFT_JOB_SECRET_FD)");
  struct stat info;
  if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return MakeError(WEFT_AUTH_FAILED,
                     StrCat("could not read the job secret: ", where,
                            " is not open here; start the program so that it inherits the "
                            "descriptors of weftrun's child (Python: close_fds=False)"));
  }
  WEFT_ASSIGN_OR_RETURN(std::string secret, ReadAll(fd, where));
  WEFT_RETURN_IF_ERROR(CheckLength(secret.size(), where));
  return secret;
}

absl::StatusOr<std::string> ReadJobSecretFile(const std::string& path) {
  const std::string where = StrCat("file ", path, " (WEFT_JOB_SECRET_FILE)");
  // O_NONBLOCK: a named pipe put there would hold up open().
  const UniqueFd fd = OpenFile(path, O_RDONLY | O_NONBLOCK);
  if (!fd.valid()) return SystemError(errno, StrCat("opening the job secret ", where));
  struct stat info;
  if (fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return MakeError(WEFT_INVALID_USAGE, StrCat("the job secret ", where, " is no regular file"));
  }
  if ((info.st_mode & 077) != 0 || (info.st_uid != geteuid() && info.st_uid != 0)) {
    return MakeError(
        WEFT_AUTH_FAILED,
        StrCat("the job secret ", where, " has mode ", fmt::format("{:04o}", info.st_mode & 07777u),
               " and owner ", info.st_uid, "; it must be yours and closed to others: chmod 600"));
  }
  WEFT_ASSIGN_OR_RETURN(std::string text, ReadAll(fd.get(), where));
  text.resize(text.find_last_not_of(" \t\r\n") + 1);
  WEFT_RETURN_IF_ERROR(CheckLength(text.size(), where));
  return text;
}

}  // namespace weft
