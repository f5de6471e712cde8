// How fast offloaded state is streamed through a few buffers, beside a plain program that does as much on the same file.
//
//   offload_bench DIRECTORY [MIB] [ROUNDS] [what]      // 512 MiB, 7 rounds; one JSON object on standard output
//
// Of `streams`: what an optimizer does with its state, without the arithmetic: windows of 1, 4 and 16 MiB are read and written back in
// order, through 3 or 8 buffers, by the store that ScratchFile has over its file, with each queue, past the page cache and through it. Of
// `updates`: AdamW of as many params as the file has room for the state of, in float32 (16 bytes per param are counted) and in bfloat16 (24), with 32 to 128 MiB
// of memory; and what is left of the time if each window is computed on, that is slept over, as long as it takes to be moved. The plain program
// (raw) is io_uring as it comes, past the page cache: each of its buffers reads a block, writes it, and goes on with
// the next one that nobody has. Which sizes of blocks and how many buffers are best is found out beforehand; the best three go on, and the best of
// them counts in each round.
//
// All take turns on one file, in an order that rotates from round to round. A rate is bytes read and written over time, the pages synced where there is a
// cache. Medians and extremes of the rounds; of_raw is of one round each.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mutex.h"
#include "base/text.h"
#include "base/wait.h"
#include "bench/micro/raw_stream.h"
#include "bench/micro/streamed_update.h"
#include "shard/offload/open_queue.h"
#include "shard/offload/queued_store.h"
#include "shard/offload/unnamed_file.h"

namespace weft {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kMemoryBytes = 128 * kMiB;  // for buffers

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "offload_bench: %s\n", what.c_str());
  std::exit(1);
}

void CheckOk(const absl::Status& status) {
  if (!status.ok()) Die(std::string(status.message()));
}

// A descriptor of its own of the same file.
UniqueFd Reopen(int fd, bool direct) {
  const std::string path = StrCat("/proc/self/fd/", fd);
  UniqueFd again(open(path.c_str(), O_RDWR | O_CLOEXEC | (direct ? O_DIRECT : 0)));
  if (!again.valid()) Die("the file cannot be opened again");
  return again;
}

// --- weft ----------------------------------------------------------------------------------------

// Reads and writes all windows in order. The next one is read as soon as a buffer is free: read i + 1, (update i), write i - 1.
void StreamThrough(BlockStore& store, size_t bytes, size_t window_bytes,
                   const std::vector<std::span<std::byte>>& buffers) {
  const size_t windows = bytes / window_bytes;
  const size_t count = buffers.size();
  std::vector<BlockStore::Ticket> reads(count);
  std::vector<BlockStore::Ticket> writes(count, 0);
  const auto read = [&](size_t window) {
    const size_t buffer = window % count;
    if (writes[buffer] != 0) CheckOk(store.Wait(writes[buffer]));
    writes[buffer] = 0;
    reads[buffer] = store.StartRead(window * window_bytes, buffers[buffer].data(), window_bytes);
  };
  for (size_t window = 0; window + 1 < count && window < windows; ++window)
    read(window);
  for (size_t window = 0; window < windows; ++window) {
    const size_t buffer = window % count;
    CheckOk(store.Wait(reads[buffer]));
    writes[buffer] = store.StartWrite(window * window_bytes, buffers[buffer].data(), window_bytes);
    if (window + count - 1 < windows) read(window + count - 1);
  }
  for (const BlockStore::Ticket ticket : writes) {
    if (ticket != 0) CheckOk(store.Wait(ticket));
  }
}

// --- Taking turns --------------------------------------------------------------------------------

struct Entry {
  std::string name;
  std::function<void()> run;
  size_t moved_bytes = 0;     // 0: the file twice
  std::vector<double> rates;  // GB/s, one per round
  std::vector<double> cpu_s;  // per GiB
  bool raw = false;
};

double CpuSeconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

struct Bench {
  int file = -1;
  size_t bytes = 0;
  size_t threads = 4;
  size_t depth = 8;
  size_t block_bytes = QueuedStore::kBlockBytes;
  std::byte* memory = nullptr;

  void Time(Entry& entry) const {
    // What the others have left in the page cache goes first.
    fdatasync(file);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    const double cpu_s = CpuSeconds();
    const int64_t begin_ns = MonotonicNs();
    entry.run();
    const double seconds = static_cast<double>(MonotonicNs() - begin_ns) * 1e-9;
    const double moved = static_cast<double>(entry.moved_bytes > 0 ? entry.moved_bytes : 2 * bytes);
    entry.rates.push_back(moved / seconds * 1e-9);
    entry.cpu_s.push_back((CpuSeconds() - cpu_s) / (moved / static_cast<double>(1024 * kMiB)));
  }

  Entry Raw(const RawShape& shape) const {
    const Bench self = *this;
    return {.name = StrCat("raw ", shape.block_bytes >> 10, " KiB x ", shape.buffers),
            .run =
                [self, shape] {
                  const UniqueFd fd = Reopen(self.file, true);
                  RawStream(fd.get(), self.bytes, {self.memory, kMemoryBytes}, shape).Run();
                },
            .raw = true};
  }

  Entry Store(OffloadIo io, bool direct, size_t window_bytes, size_t buffers) const {
    const Bench self = *this;
    return {.name = StrCat(io == OffloadIo::kUring ? "io_uring" : "threads",
                           direct ? ", O_DIRECT, " : ", page cache, ", window_bytes >> 20,
                           " MiB x ", buffers),
            .run = [self, io, direct, window_bytes, buffers] {
              std::vector<std::span<std::byte>> slots;
              for (size_t i = 0; i < buffers; ++i)
                slots.emplace_back(self.memory + i * window_bytes, window_bytes);
              UniqueFd fd = Reopen(self.file, direct);
              auto queue = OpenBlockQueue(
                  fd, {.io = io, .buffers = slots, .depth = self.depth, .threads = self.threads});
              CheckOk(queue.status());
              QueuedStore store(*std::move(queue), {.bytes = self.bytes,
                                                    .place = "the directory",
                                                    .timeout_ns = 60'000'000'000,
                                                    .block_bytes = self.block_bytes});
              StreamThrough(store, self.bytes, window_bytes, slots);
              if (!direct) fdatasync(self.file);
            }};
  }
};

// An optimizer whose state is on the file.
std::shared_ptr<StreamedUpdate> UpdateOn(const Bench& bench, weft_dtype_t dtype,
                                         size_t buffer_bytes) {
  const size_t per_param = dtype == WEFT_FLOAT32 ? 8 : 12;
  // Some of the file is for what windows are rounded up by.
  const size_t params = (bench.bytes - bench.bytes / 64) / per_param;
  return std::make_shared<StreamedUpdate>(
      UpdateShape{.dtype = dtype, .params = params, .buffer_bytes = buffer_bytes, .threads = 2},
      [&](std::span<std::byte> memory, size_t slot_bytes, uint64_t file_bytes) {
        if (file_bytes > bench.bytes) Die("the file is too small for the state");
        std::vector<std::span<std::byte>> slots;
        for (size_t at = 0; at < memory.size(); at += slot_bytes)
          slots.push_back(memory.subspan(at, slot_bytes));
        UniqueFd fd = Reopen(bench.file, true);
        auto queue =
            OpenBlockQueue(fd, {.io = OffloadIo::kUring, .buffers = slots, .depth = bench.depth});
        CheckOk(queue.status());
        return std::make_unique<QueuedStore>(
            *std::move(queue),
            QueuedStore::Settings{
                .bytes = bench.bytes, .place = "the directory", .timeout_ns = 60'000'000'000});
      });
}

void AddUpdates(const Bench& bench, std::vector<Entry>& entries) {
  for (const weft_dtype_t dtype : {WEFT_FLOAT32, WEFT_BFLOAT16}) {
    for (const size_t mebibytes : {32, 64, 128}) {
      const auto update = UpdateOn(bench, dtype, mebibytes * kMiB);
      entries.push_back({.name = StrCat(dtype == WEFT_FLOAT32 ? "float32" : "bfloat16", " params, ",
                                        mebibytes, " MiB"),
                         .run = [update] { update->Run(); },
                         .moved_bytes = update->moved_bytes()});
    }
  }
}

// Sleeps over each window as long as its transfers take at that rate.
void AddSleeps(const Bench& bench, double rate, std::vector<Entry>& entries) {
  const auto update = UpdateOn(bench, WEFT_FLOAT32, 64 * kMiB);
  const auto compute = [rate](size_t bytes) {
    Mutex mutex;
    std::condition_variable never;
    MutexLock lock(mutex);
    const double seconds = 2 * static_cast<double>(bytes) / rate;
    const int64_t until_ns = MonotonicNs() + static_cast<int64_t>(seconds * 1e9);
    while (lock.WaitUntil(never, until_ns)) {
    }
  };
  entries.push_back({.name = "computing on each window as long as it is moved",
                     .run = [update, compute] { update->ForEachWindow(/*visits=*/true, compute); },
                     .moved_bytes = update->moved_bytes()});
  entries.push_back({.name = "the same computing alone",
                     .run = [update, compute] { update->ForEachWindow(/*visits=*/false, compute); },
                     .moved_bytes = update->moved_bytes()});
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void PrintSpread(const char* name, const std::vector<double>& values, const char* end) {
  std::printf("\"%s\": {\"median\": %.3f, \"min\": %.3f, \"max\": %.3f}%s", name, Median(values),
              *std::min_element(values.begin(), values.end()),
              *std::max_element(values.begin(), values.end()), end);
}

// The best three shapes, by two passes each.
std::vector<RawShape> BestShapes(const Bench& bench) {
  struct Tried {
    RawShape shape;
    double rate;
  };

  std::vector<Tried> tried;
  for (const size_t block_kib : {256, 512, 1024, 2048, 4096}) {
    for (const size_t buffers : {4, 16, 32}) {
      const RawShape shape = {.block_bytes = block_kib << 10, .buffers = buffers};
      Entry entry = bench.Raw(shape);
      for (int pass = 0; pass < 2; ++pass)
        bench.Time(entry);
      tried.push_back({shape, *std::max_element(entry.rates.begin(), entry.rates.end())});
    }
  }
  std::sort(tried.begin(), tried.end(),
            [](const Tried& a, const Tried& b) { return a.rate > b.rate; });
  std::vector<RawShape> best;
  for (size_t i = 0; i < 3; ++i)
    best.push_back(tried[i].shape);
  return best;
}

void Print(const Bench& bench, const std::vector<Entry>& entries) {
  const size_t rounds = entries.front().rates.size();
  std::vector<double> raw(rounds, 0);
  for (const Entry& entry : entries) {
    for (size_t i = 0; entry.raw && i < rounds; ++i)
      raw[i] = std::max(raw[i], entry.rates[i]);
  }
  std::printf(
      "{\n  \"bytes\": %zu, \"rounds\": %zu, \"block_bytes\": %zu, \"depth\": %zu, "
      "\"threads\": %zu,\n  ",
      bench.bytes, rounds, bench.block_bytes, bench.depth, bench.threads);
  PrintSpread("raw_GB/s", raw, ",\n  \"ways\": [\n");
  for (const Entry& entry : entries) {
    std::vector<double> of_raw;
    for (size_t i = 0; i < rounds; ++i)
      of_raw.push_back(entry.rates[i] / raw[i]);
    std::printf("    {\"name\": \"%s\", ", entry.name.c_str());
    PrintSpread("GB/s", entry.rates, ", ");
    PrintSpread("of_raw", of_raw, ", ");
    std::printf("\"cpu_s/GiB\": %.3f}%s\n", Median(entry.cpu_s),
                &entry == &entries.back() ? "" : ",");
  }
  std::printf("  ]\n}\n");
}

size_t FromEnvironment(const char* name, size_t standard) {
  const char* const text = std::getenv(name);
  return text == nullptr ? standard : std::strtoull(text, nullptr, 10);
}

void AddStreams(const Bench& bench, std::vector<Entry>& entries) {
  for (const size_t window : {1, 4, 16}) {
    for (const size_t buffers : {3, 8})
      entries.push_back(bench.Store(OffloadIo::kUring, true, window * kMiB, buffers));
    entries.push_back(bench.Store(OffloadIo::kThreads, true, window * kMiB, 3));
  }
  entries.push_back(bench.Store(OffloadIo::kUring, false, 4 * kMiB, 3));
  entries.push_back(bench.Store(OffloadIo::kThreads, false, 4 * kMiB, 3));
}

int Main(int argc, char** argv) {
  const size_t mebibytes = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 512;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 7;
  const std::string what = argc > 4 ? argv[4] : "all";
  const bool known = what == "all" || what == "streams" || what == "updates";
  if (argc < 2 || argc > 5 || !known || mebibytes == 0 || mebibytes % 16 != 0 || rounds < 1) {
    std::fprintf(stderr,
                 "usage: offload_bench DIRECTORY [MIB, a multiple of 16] [ROUNDS] [all, streams, "
                 "updates]\n");
    return 2;
  }
  Bench bench;
  bench.bytes = mebibytes * kMiB;
  bench.block_bytes = FromEnvironment("BENCH_BLOCK_KIB", QueuedStore::kBlockBytes >> 10) << 10;
  bench.depth = FromEnvironment("BENCH_DEPTH", bench.depth);
  bench.threads = FromEnvironment("BENCH_THREADS", bench.threads);
  auto file = MakeUnnamedFile(argv[1], bench.bytes, /*direct=*/true);
  CheckOk(file.status());
  if (!file->direct) Die("this file system has no O_DIRECT");
  bench.file = file->fd.get();
  bench.memory = static_cast<std::byte*>(std::aligned_alloc(BlockStore::kAlignment, kMemoryBytes));
  std::fill_n(bench.memory, kMemoryBytes, std::byte{1});
  // Room that was reserved and never written costs more than what is there.
  for (size_t offset = 0; offset < bench.bytes; offset += 16 * kMiB) {
    if (pwrite(bench.file, bench.memory, 16 * kMiB, static_cast<off_t>(offset)) < 0)
      Die("the file cannot be written");
  }
  std::vector<Entry> entries;
  for (const RawShape& shape : BestShapes(bench))
    entries.push_back(bench.Raw(shape));
  if (what != "updates") AddStreams(bench, entries);
  if (what != "streams") {
    AddUpdates(bench, entries);
    Entry best = entries.front();
    bench.Time(best);
    AddSleeps(bench, best.rates.back() * 1e9, entries);
  }
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < entries.size(); ++i)
      bench.Time(entries[(i + static_cast<size_t>(round) * 3) % entries.size()]);
  }
  Print(bench, entries);
  return 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  return weft::Main(argc, argv);
}
