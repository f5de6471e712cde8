// The settings of weft, one table: name, type, default, environment variable, meaning.
//
//   const Options& options = GetOptions();   // read from the environment once
//   options.spin_count ...
//
// A value that does not parse is warned about and its default used; a WEFT_* variable that no row
// names is warned about with the nearest name. getenv stands in options.cc only. docs/options.md and
// `weftctl options` are made from the table.
// Thread-safety: constant after the first GetOptions().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct Options {
  std::string log_level = "warn";   // WEFT_LOG
  double timeout_s = 1800;          // WEFT_TIMEOUT_S: deadline of an operation
  double unreachable_s = 3;         // WEFT_UNREACHABLE_S: until a machine that does not answer is
  std::string isa;                  // WEFT_ISA: "", scalar, avx2, avx512; checked by the kernels
  int64_t heap_bytes = 0;           // WEFT_HEAP_BYTES: address space reserved; 0: physical memory
  int64_t spin_count = -1;          // WEFT_SPIN_COUNT: probes before yielding; -1: chosen
  int64_t yield_count = -1;         // WEFT_YIELD_COUNT: yields before sleeping; -1: chosen
  std::string progress = "thread";  // WEFT_PROGRESS: thread, caller
  bool single_copy = true;          // WEFT_SINGLE_COPY: reads peers' memory by process_vm_readv
  std::string combine = "auto";     // WEFT_COMBINE: auto, 0, 1
  bool spread = true;               // WEFT_SPREAD: ranks move to CPUs with fewer of their group
  std::string tune = "auto";        // WEFT_TUNE: auto, static, measure
  std::string dump_dir;             // WEFT_DUMP_DIR: where recorder dumps go; "": no dump files
  std::string fake_nodes;           // WEFT_FAKE_NODES: nodes that one machine is cut into
  std::string schedule_file;        // WEFT_SCHEDULE_FILE: the user's schedules; foreign_schedules.h
  std::string ifname;               // WEFT_IFNAME: interfaces.h
  std::string transport = "auto";   // WEFT_TRANSPORT: auto, tcp, ucx; checked where groups are made
  int64_t net_streams = 1;          // WEFT_NET_STREAMS
  int64_t net_bytes = 64 << 20;     // WEFT_NET_BYTES: kept between operations over nodes
  bool probe = false;               // WEFT_PROBE: measures the links between nodes
  std::string offload_io = "auto";  // WEFT_OFFLOAD_IO: auto, uring, threads
  std::string cuda_library;         // WEFT_CUDA_LIBRARY: in place of libcuda.so.1
  std::string topology_file;        // WEFT_TOPOLOGY_FILE: in place of the machine's own
  bool insecure = false;            // WEFT_INSECURE: several nodes without a secret
  std::string job_secret_file;      // WEFT_JOB_SECRET_FILE
  int64_t job_secret_fd = -1;       // WEFT_JOB_SECRET_FD: inherited; set by weftrun
  int64_t master_port = 0;          // WEFT_MASTER_PORT; 0: MASTER_PORT
  std::string store;                // WEFT_STORE: unix:@name, tcp:host:port; set by weftrun
  std::string job_id;               // WEFT_JOB_ID; set by weftrun
  int64_t restart_count = 0;        // WEFT_RESTART_COUNT; set by weftrun
  bool join = false;                // WEFT_JOIN: the group runs already; set by weftrun
  std::string library_path;         // WEFT_LIBRARY_PATH: read by the Python package alone
  bool torch_extension = true;      // WEFT_TORCH_EXTENSION: read by the Python package alone
};

const Options& GetOptions();

// A timeout that a caller has given, or WEFT_TIMEOUT_S if it is 0 or less.
int64_t TimeoutOrDefault(int64_t timeout_ns);

// WEFT_UNREACHABLE_S.
int64_t UnreachableNs();

// A row of the table, for printing.
struct OptionRow {
  const char* environment;
  const char* type;  // integer, bytes, seconds, boolean, choice, text
  const char* default_value;
  const char* meaning;  // a sentence; of a choice, with the values
};

size_t OptionCount();
const OptionRow& OptionAt(size_t index);

// The value of any environment variable, nullptr if it is not set. For the variables of launchers
// (RANK, SLURM_PROCID, ...), which are not weft's options. The text may change when the process
// changes its environment: copy it.
const char* EnvironmentValue(const char* name);

// What GetOptions makes of an environment ("NAME=value" lines), for tests. One sentence per problem
// is added to *warnings.
Options ParseOptions(const std::vector<std::string>& environment,
                     std::vector<std::string>* warnings);

}  // namespace weft
