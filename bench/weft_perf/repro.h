// --repro: a hash for each way to get a result, and whether all ways agree. run.h does what one set of ranks can do; here
// are the other sets: processes and threads, each instruction set of WEFT_ISA, and the nodes of WEFT_FAKE_NODES, with each transport
// of WEFT_TRANSPORT between them. The library reads these variables once, so each set of ranks is a run of this program of its own, whose results come back through a pipe.
//
//   ReproSummary summary;
//   summary.Add(result);            // any number of times
//   Print(summary.Text());
//   exit code = summary.ok() ? 0 : 7
//
// Thread-safety: values; used by one thread.
#ifndef WEFT_BENCH_WEFT_PERF_REPRO_H_
#define WEFT_BENCH_WEFT_PERF_REPRO_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "bench/weft_perf/options.h"
#include "bench/weft_perf/outcome.h"

namespace weft::perf {

// Of the inputs. Anything; the same in every run, so that hashes of different runs can be compared.
inline constexpr uint64_t kReproSeed = 2026;

// SHA-256 of the runs of bytes one after another, its first 64 bits as 16 hexadecimal digits.
std::string HashText(std::span<const std::span<const unsigned char>> runs);

// One hash for the hashes of all ranks, "" of a rank without a result. With `same` they must be equal,
// else *agree becomes false.
std::string HashOfRanks(const std::vector<std::string>& of_ranks, bool same, bool* agree);

struct ReproResult {
  // What was asked for.
  std::string operation;
  std::string type;
  std::string reduction;
  int root = -1;
  size_t ranks = 1;
  size_t bytes = 0;  // the table's size
  size_t count = 0;
  // How.
  std::string ranks_are;    // "processes", "threads"
  std::string nodes = "1";  // WEFT_FAKE_NODES
  std::string transport;    // WEFT_TRANSPORT, of several nodes
  std::string isa;          // WEFT_ISA
  std::string algorithm;    // "auto" or weft_call_t::algorithm
  std::string memory;       // "private", "symmetric"
  bool in_place = false;
  bool blocking = true;
  // What came out.
  std::string hash;         // of all ranks' results
  std::string prefix_hash;  // of as many elements as the smallest size of the sweep has
  bool ranks_agree = true;  // where every rank must have the same result
  size_t stray_bytes = 0;   // beside the buffers that changed

  // "processes avx2 auto private in-place blocking", and "nodes 0,1,0,1 over ucx" if there are several
  std::string Way() const;
};

// A way that the library does not offer.
struct ReproSkip {
  std::string algorithm;
  size_t calls = 0;
  std::string why;  // of the first
};

// One line each, from a child process to the one that started it.
std::string ReproLine(const ReproResult& result);
std::string ReproLine(const ReproSkip& skip);

class ReproSummary {
 public:
  void Add(ReproResult result);
  void Add(const ReproSkip& skip);
  // What ReproLine wrote. False when the line is none.
  bool AddLine(const std::string& line);

  const std::vector<ReproResult>& results() const { return results_; }

  // The most different hashes that one operation, type, reduction, root, size and number of ranks
  // has; the beginnings of all sizes count as one size more.
  size_t distinct() const;
  bool ok() const;

  // One line for each size, then what differs and what was skipped, then the verdict.
  std::string Text() const;
  // All of it as one JSON object, "okay" a string as in nccl-tests.
  std::string JsonText() const;

 private:
  // Results by their hash.
  using ByHash = std::map<std::string, std::vector<const ReproResult*>>;

  struct Group {
    const ReproResult* first = nullptr;
    size_t results = 0;
    ByHash by_hash;
  };

  std::vector<Group> Groups(bool prefixes) const;
  std::string FaultLines() const;

  std::vector<ReproResult> results_;
  std::vector<ReproSkip> skips_;
};

// A set of ranks.
struct ReproWorld {
  bool threads = false;   // instead of the processes of --nprocs
  std::string isa;        // of WEFT_ISA
  std::string nodes;      // of WEFT_FAKE_NODES; "": as the user has it
  std::string transport;  // of WEFT_TRANSPORT; "": as the user has it
};

// What the user's environment says; nullptr or "": all that there is.
struct ReproChoice {
  const char* isa = nullptr;  // WEFT_ISA
  const char* nodes =
      nullptr;  // WEFT_FAKE_NODES; all: one node and, of processes with the last instruction set, every shape of several
  const char* transport = nullptr;  // WEFT_TRANSPORT
};

// `isas`: what the CPU has, the best last; `transports`: what can be had between nodes.
std::vector<ReproWorld> ReproWorlds(const Options& options, const std::vector<std::string>& isas,
                                    const std::vector<std::string>& transports,
                                    const ReproChoice& choice);

// The instruction sets that weft has kernels for and this CPU has.
std::vector<std::string> CpuIsas();

// "tcp", and "ucx" if its module lies beside the library and can be opened.
std::vector<std::string> NodeTransports();

// Runs all of them one after another, prints what they found and writes JSON.
ExitCode RunReproWorlds(const Options& options, int argc, char** argv);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_REPRO_H_
