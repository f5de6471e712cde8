// How fast checkpoints are written and read, beside a plain program that writes and reads as many bytes in the same files' stead, and how
// long a save in the background holds up its caller, beside a memcpy.
//
//   checkpoint_bench DIRECTORY [MIB] [RANKS] [ROUNDS]      // 1024 MiB of state over 4 ranks, 7 rounds; one JSON object on standard output
//
// Ranks are processes. Each has its part of 16 tensors, and the plain program writes the same memory: in pieces of 4 MiB, fsync, close. A
// time is from a barrier to a barrier, so the slowest rank counts. In every round the two take turns in who is first. Before each
// reading the files' pages are dropped (posix_fadvise), so both read from the disk. Checkpoints are removed between rounds, in
// nobody's time. Medians and extremes of the rounds; ratios are of one round each.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weft/checkpoint.h"
#include "weft/weft.h"

#include "bench/micro/timed_calls.h"

using weft::Check;
using weft::NowNs;

namespace {

constexpr int kTensors = 16;
constexpr size_t kPieceBytes = 4 << 20;
constexpr int kRanksMax = 64;

struct Setting {
  std::string directory;
  size_t bytes = 0;  // of all ranks
  int ranks = 0;
  int rounds = 0;
};

void CheckCall(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  _exit(1);
}

// What one rank has, and the calls that are timed.
class Rank {
 public:
  Rank(const Setting& setting, const weft_unique_id_t& id, int rank)
      : setting_(setting),
        rank_(rank),
        elements_(setting.bytes / sizeof(float) / kTensors),
        begin_(elements_ * static_cast<size_t>(rank) / static_cast<size_t>(setting.ranks)),
        count_(elements_ * static_cast<size_t>(rank + 1) / static_cast<size_t>(setting.ranks) -
               begin_),
        state_(kTensors, std::vector<float>(count_)),
        copy_(kTensors * count_ * sizeof(float), 1) {
    for (std::vector<float>& part : state_) {
      for (size_t i = 0; i < part.size(); ++i)
        part[i] = static_cast<float>(i * 2654435761u % 1000003u + static_cast<size_t>(rank));
    }
    Check(weft_group_create_from_id(&id, setting.ranks, rank, nullptr, &group_));
    const std::string directory = CheckpointDirectory();
    weft_checkpoint_config_t config = {};
    config.struct_size = sizeof(config);
    config.directory = directory.c_str();
    Check(weft_checkpoint_create(group_, &config, &checkpoint_));
    for (int i = 0; i < kTensors; ++i) {
      const std::string name = "tensor" + std::to_string(i);
      const auto shape = static_cast<int64_t>(elements_);
      weft_checkpoint_tensor_t tensor = {};
      tensor.struct_size = sizeof(tensor);
      tensor.name = name.c_str();
      tensor.shape = &shape;
      tensor.ndim = 1;
      tensor.dtype = WEFT_FLOAT32;
      tensor.begin = begin_;
      tensor.count = count_;
      tensor.data = state_[static_cast<size_t>(i)].data();
      Check(weft_checkpoint_add_tensor(checkpoint_, &tensor));
    }
  }

  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  ~Rank() {
    Check(weft_checkpoint_destroy(checkpoint_));
    Check(weft_group_destroy(group_));
  }

  // Seconds from when all ranks begin until all have ended.
  template <typename Call>
  double SecondsOfAll(Call call) {
    Barrier();
    const int64_t begin_ns = NowNs();
    call();
    Barrier();
    return static_cast<double>(NowNs() - begin_ns) * 1e-9;
  }

  // Seconds of the slowest rank, all of which begin together.
  template <typename Call>
  double SecondsOfSlowest(Call call) {
    Barrier();
    const int64_t begin_ns = NowNs();
    call();
    double seconds = static_cast<double>(NowNs() - begin_ns) * 1e-9;
    Check(weft_all_reduce(&seconds, &seconds, 1, WEFT_FLOAT64, WEFT_MAX, group_, nullptr, nullptr));
    return seconds;
  }

  void PlainWrite() {
    const int fd = open(PlainPath().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    CheckCall(fd >= 0, "open");
    for (const std::vector<float>& part : state_) {
      const char* from = reinterpret_cast<const char*>(part.data());
      for (size_t left = part.size() * sizeof(float); left > 0;) {
        const ssize_t written = write(fd, from, std::min(left, kPieceBytes));
        CheckCall(written > 0, "write");
        from += written;
        left -= static_cast<size_t>(written);
      }
    }
    CheckCall(fsync(fd) == 0, "fsync");
    CheckCall(close(fd) == 0, "close");
  }

  void PlainRead() {
    const int fd = open(PlainPath().c_str(), O_RDONLY | O_CLOEXEC);
    CheckCall(fd >= 0, "open");
    for (std::vector<float>& part : state_) {
      char* to = reinterpret_cast<char*>(part.data());
      for (size_t left = part.size() * sizeof(float); left > 0;) {
        const ssize_t got = read(fd, to, std::min(left, kPieceBytes));
        CheckCall(got > 0, "read");
        to += got;
        left -= static_cast<size_t>(got);
      }
    }
    close(fd);
  }

  void Copy() {
    char* to = copy_.data();
    for (const std::vector<float>& part : state_) {
      std::memcpy(to, part.data(), part.size() * sizeof(float));
      to += part.size() * sizeof(float);
    }
  }

  void Save(bool background) {
    weft_checkpoint_save_config_t save = {};
    save.struct_size = sizeof(save);
    save.step = ++step_;
    save.background = background ? 1 : 0;
    Check(weft_checkpoint_save(checkpoint_, &save));
  }

  void WaitForSave() { Check(weft_checkpoint_wait(checkpoint_, 0)); }

  void Load() {
    weft_checkpoint_loaded_t loaded = {};
    loaded.struct_size = sizeof(loaded);
    Check(weft_checkpoint_load(checkpoint_, nullptr, &loaded));
    if (loaded.found == 0 || loaded.step != step_) {
      std::fprintf(stderr, "checkpoint_bench: step %lld was not loaded\n",
                   static_cast<long long>(step_));
      _exit(1);
    }
  }

  // Rank 0: of all files, so that they are read from the disk.
  void DropPages() {
    Barrier();
    if (rank_ == 0) {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(setting_.directory)) {
        if (!entry.is_regular_file()) continue;
        const int fd = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
        CheckCall(fd >= 0, "open");
        CheckCall(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0, "posix_fadvise");
        close(fd);
      }
    }
    Barrier();
  }

  void RemoveFiles() {
    Barrier();
    if (rank_ == 0) {
      for (const auto& entry : std::filesystem::directory_iterator(setting_.directory))
        std::filesystem::remove_all(entry.path());
      std::filesystem::create_directory(CheckpointDirectory());
      sync();
    }
    Barrier();
  }

  void Barrier() { Check(weft_barrier(group_, nullptr, nullptr)); }

 private:
  std::string CheckpointDirectory() const { return setting_.directory + "/checkpoints"; }

  std::string PlainPath() const { return setting_.directory + "/plain-" + std::to_string(rank_); }

  const Setting& setting_;
  const int rank_;
  const size_t elements_;  // of each tensor
  const size_t begin_;     // of this rank's part
  const size_t count_;
  std::vector<std::vector<float>> state_;
  std::vector<char> copy_;
  int64_t step_ = 0;
  weft_group_t group_ = nullptr;
  weft_checkpoint_t checkpoint_ = nullptr;
};

// One entry per round.
struct Report {
  std::vector<double> plain_write_s;
  std::vector<double> save_s;
  std::vector<double> plain_read_s;
  std::vector<double> load_s;
  std::vector<double> copy_s;
  std::vector<double> background_s;        // until Save returns
  std::vector<double> background_whole_s;  // until it is committed
};

// The two in turns, so that neither is always the first.
template <typename First, typename Second>
void Alternate(bool turned, First first, Second second) {
  if (turned) second();
  first();
  if (!turned) second();
}

Report RunRank(const Setting& setting, const weft_unique_id_t& id, int number) {
  Rank rank(setting, id, number);
  Report report;
  // The first save in the background allocates its copy; nothing of this round counts.
  rank.Save(/*background=*/true);
  rank.WaitForSave();
  for (int round = 0; round < setting.rounds; ++round) {
    const bool turned = round % 2 == 1;
    // Each on a disk without the other's files: who writes second on some disks has a third of the bandwidth.
    Alternate(
        turned,
        [&] {
          rank.RemoveFiles();
          report.plain_write_s.push_back(rank.SecondsOfAll([&] { rank.PlainWrite(); }));
        },
        [&] {
          rank.RemoveFiles();
          report.save_s.push_back(rank.SecondsOfAll([&] { rank.Save(false); }));
        });
    rank.RemoveFiles();
    rank.PlainWrite();
    rank.Save(/*background=*/false);
    Alternate(
        turned,
        [&] {
          rank.DropPages();
          report.plain_read_s.push_back(rank.SecondsOfAll([&] { rank.PlainRead(); }));
        },
        [&] {
          rank.DropPages();
          report.load_s.push_back(rank.SecondsOfAll([&] { rank.Load(); }));
        });
    rank.RemoveFiles();
    Alternate(
        turned, [&] { report.copy_s.push_back(rank.SecondsOfSlowest([&] { rank.Copy(); })); },
        [&] {
          rank.Barrier();
          const int64_t begin_ns = NowNs();
          report.background_s.push_back(rank.SecondsOfSlowest([&] { rank.Save(true); }));
          rank.WaitForSave();
          rank.Barrier();
          report.background_whole_s.push_back(static_cast<double>(NowNs() - begin_ns) * 1e-9);
        });
  }
  rank.RemoveFiles();
  return report;
}

void PrintSpread(const char* name, std::vector<double> values, const char* end) {
  std::sort(values.begin(), values.end());
  std::printf("    \"%s\": {\"median\": %.3f, \"min\": %.3f, \"max\": %.3f}%s\n", name,
              values[values.size() / 2], values.front(), values.back(), end);
}

// Of each round: a / b.
std::vector<double> Ratios(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < a.size(); ++i)
    ratios.push_back(a[i] / b[i]);
  return ratios;
}

// In GB/s.
std::vector<double> Rates(size_t bytes, const std::vector<double>& seconds) {
  std::vector<double> rates;
  for (const double one : seconds)
    rates.push_back(static_cast<double>(bytes) / one * 1e-9);
  return rates;
}

void Print(const Setting& setting, const Report& report) {
  std::printf("{\n  \"ranks\": %d, \"bytes\": %zu, \"rounds\": %d,\n", setting.ranks, setting.bytes,
              setting.rounds);
  std::printf("  \"write\": {\n");
  PrintSpread("plain_GB/s", Rates(setting.bytes, report.plain_write_s), ",");
  PrintSpread("save_GB/s", Rates(setting.bytes, report.save_s), ",");
  PrintSpread("of_plain", Ratios(report.plain_write_s, report.save_s), "\n  },");
  std::printf("  \"read\": {\n");
  PrintSpread("plain_GB/s", Rates(setting.bytes, report.plain_read_s), ",");
  PrintSpread("load_GB/s", Rates(setting.bytes, report.load_s), ",");
  PrintSpread("of_plain", Ratios(report.plain_read_s, report.load_s), "\n  },");
  std::printf("  \"background\": {\n");
  PrintSpread("memcpy_s", report.copy_s, ",");
  PrintSpread("save_s", report.background_s, ",");
  PrintSpread("of_memcpy", Ratios(report.background_s, report.copy_s), ",");
  PrintSpread("committed_s", report.background_whole_s, "\n  }\n}");
}

}  // namespace

int main(int argc, char** argv) {
  Setting setting;
  setting.directory = argc > 1 ? argv[1] : "";
  setting.bytes = (argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1024) << 20;
  setting.ranks = argc > 3 ? std::atoi(argv[3]) : 4;
  setting.rounds = argc > 4 ? std::atoi(argv[4]) : 7;
  if (argc < 2 || argc > 5 || setting.bytes == 0 || setting.ranks < 1 ||
      setting.ranks > kRanksMax || setting.rounds < 1) {
    std::fprintf(stderr, "usage: checkpoint_bench DIRECTORY [MIB] [RANKS 1..%d] [ROUNDS]\n",
                 kRanksMax);
    return 2;
  }
  // Of its own, so that nothing else in the directory is touched.
  setting.directory += "/checkpoint_bench-" + std::to_string(getpid());
  std::filesystem::create_directories(setting.directory + "/checkpoints");
  weft_unique_id_t id;
  Check(weft_unique_id_create(&id));
  for (int rank = 0; rank < setting.ranks; ++rank) {
    if (fork() != 0) continue;
    const Report report = RunRank(setting, id, rank);
    if (rank == 0) Print(setting, report);
    std::fflush(stdout);
    _exit(0);
  }
  int result = 0;
  for (int rank = 0; rank < setting.ranks; ++rank) {
    int status = 0;
    wait(&status);
    if (status != 0) result = 1;
  }
  std::filesystem::remove_all(setting.directory);
  return result;
}
