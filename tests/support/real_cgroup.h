// A control group of this machine, for tests that need the kernel's own: made below the mount's root, removed at the end.
//
//   RealCgroup group("freezer");
//   if (!group.made()) GTEST_SKIP() << "no control groups can be made here";
//   group.Write(group.version() == 1 ? "freezer.state" : "cgroup.freeze", "...");
//   group.Take(pid);
//
// `controller` is looked for in version 1 first, then version 2 alone, then version 2 beside version 1.
// Thread-safety: one thread. Whoever is in the group at the end must have ended.
#pragma once

#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace weft {

class RealCgroup {
 public:
  // `file`: of the controller, as version 1 and as version 2 call it; where it is missing, the group is not made.
  RealCgroup(const std::string& controller, const std::string& file_1, const std::string& file_2) {
    const std::string name = "/weft-test-" + std::to_string(getpid()) + "-" + controller;
    const std::pair<std::string, int> mounts[] = {
        {"/sys/fs/cgroup/" + controller, 1}, {"/sys/fs/cgroup", 2}, {"/sys/fs/cgroup/unified", 2}};
    for (const auto& [mount, version] : mounts) {
      folder_ = mount + name;
      version_ = version;
      if (mkdir(folder_.c_str(), 0755) != 0) continue;
      if (std::filesystem::exists(folder_ + "/" + (version == 1 ? file_1 : file_2))) return;
      rmdir(folder_.c_str());
    }
    version_ = 0;
  }

  RealCgroup(const RealCgroup&) = delete;
  RealCgroup& operator=(const RealCgroup&) = delete;

  ~RealCgroup() {
    // The kernel takes a moment to let go of the last process.
    for (int attempt = 0; made() && rmdir(folder_.c_str()) != 0 && attempt < 1000; ++attempt)
      poll(nullptr, 0, 1);
  }

  bool made() const { return version_ != 0; }

  int version() const { return version_; }

  bool Write(const std::string& file, const std::string& text) const {
    const int fd = open((folder_ + "/" + file).c_str(), O_WRONLY | O_CLOEXEC);
    const bool well = fd >= 0 && write(fd, text.data(), text.size()) >= 0;
    if (fd >= 0) close(fd);
    return well;
  }

  bool Take(pid_t pid) const { return Write("cgroup.procs", std::to_string(pid)); }

  bool Freeze(bool frozen) const {
    return version_ == 1 ? Write("freezer.state", frozen ? "FROZEN" : "THAWED")
                         : Write("cgroup.freeze", frozen ? "1" : "0");
  }

  bool LimitMemory(size_t bytes) const {
    return Write(version_ == 1 ? "memory.limit_in_bytes" : "memory.max", std::to_string(bytes));
  }

 private:
  std::string folder_;
  int version_ = 0;
};

}  // namespace weft
