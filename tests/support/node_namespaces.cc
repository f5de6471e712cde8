#include "tests/support/node_namespaces.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

#include "base/status.h"
#include "base/text.h"

namespace weft::test {
namespace {

// Entering the user namespace that one is in already is an error.
bool IsOwnUserNamespace(int user) {
  struct stat theirs;
  struct stat own;
  return fstat(user, &theirs) == 0 && stat("/proc/self/ns/user", &own) == 0 &&
         theirs.st_ino == own.st_ino && theirs.st_dev == own.st_dev;
}

}  // namespace

absl::StatusOr<NodeNamespaces> NodeNamespaces::Of(pid_t holder) {
  const auto open_namespace = [holder](const char* kind) {
    const std::string path = StrCat("/proc/", holder, "/ns/", kind);
    return UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  };
  NodeNamespaces node;
  node.user_ = open_namespace("user");
  if (node.user_.valid()) node.network_ = open_namespace("net");
  if (node.network_.valid()) node.name_ = open_namespace("uts");
  if (!node.name_.valid()) {
    return MakeError(WEFT_UNSUPPORTED, StrCat("the namespaces of process ", holder,
                                              " cannot be opened: ", std::strerror(errno)));
  }
  if (IsOwnUserNamespace(node.user_.get())) node.user_.Reset();
  return node;
}

bool NodeNamespaces::Enter() const {
  return (!user_.valid() || setns(user_.get(), CLONE_NEWUSER) == 0) &&
         setns(network_.get(), CLONE_NEWNET) == 0 && setns(name_.get(), CLONE_NEWUTS) == 0;
}

}  // namespace weft::test
