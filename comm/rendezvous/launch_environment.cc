// Variables of several launchers occur together: an srun step may carry the daemons of an mpiexec, and the shell of a batch
// script has Slurm's variables though it is no task of the job. Hence the order of the table in Read(), and UnderSlurm().
// Variables that contradict each other are refused, not weighed: a wrong rank would show much later, as ranks that wait.
#include "comm/rendezvous/launch_environment.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "absl/strings/numbers.h"
#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/rendezvous/job_secret.h"
#include "comm/rendezvous/slurm_node_list.h"

namespace weft {
namespace {

// The names that one launcher gives the four numbers.
struct PlaceNames {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;  // nullptr: no variable of its own
};

class Reader {
 public:
  explicit Reader(const EnvironmentGetter& get) : get_(get) {}

  absl::StatusOr<LaunchEnvironment> Read();

 private:
  std::string Text(const char* name) const {
    const char* value = get_(name);
    return value == nullptr ? "" : value;
  }

  bool Has(const char* name) const { return !Text(name).empty(); }

  // The first of `names` that is set; its last one if none is.
  const char* FirstSet(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      if (Has(name)) return name;
    }
    return *(names.end() - 1);
  }

  absl::Status Problem(std::initializer_list<const char*> names, std::string_view what) const;
  absl::StatusOr<int> Number(const char* name, int minimum, int maximum) const;
  absl::Status ReadPlace(const PlaceNames& names);
  absl::Status ReadLocalSize(const PlaceNames& names);
  absl::Status ReadPort();
  absl::Status ReadSecret();
  absl::Status ReadWeftrun();
  absl::Status ReadTorchrun();
  absl::Status ReadOpenMpi();
  absl::Status ReadSlurm();
  absl::Status ReadSlurmLocalSize(int node_count);
  absl::Status ReadPmi();
  absl::Status CheckNotAlone() const;
  bool UnderSlurm() const;
  bool UnderPmi() const;

  const EnvironmentGetter& get_;
  LaunchEnvironment launch_;
};

// "reading the launch environment (torchrun): RANK=9 and WORLD_SIZE=4: <what>".
absl::Status Reader::Problem(std::initializer_list<const char*> names,
                             std::string_view what) const {
  std::string seen;
  for (const char* name : names) {
    if (!seen.empty()) seen += ", ";
    seen += Has(name) ? StrCat(name, "=", Text(name)) : StrCat(name, " unset");
  }
  return MakeError(WEFT_INVALID_USAGE, StrCat("reading the launch environment (", launch_.launcher,
                                              "): ", seen, ": ", what));
}

absl::StatusOr<int> Reader::Number(const char* name, int minimum, int maximum) const {
  int value = 0;
  if (!absl::SimpleAtoi(Text(name), &value) || value < minimum || value > maximum) {
    return Problem({name}, StrCat("it must be a whole number from ", minimum, " to ", maximum));
  }
  return value;
}

absl::Status Reader::ReadPlace(const PlaceNames& names) {
  if (!Has(names.rank) || !Has(names.size)) {
    return Problem({names.rank, names.size}, "set both or neither");
  }
  WEFT_ASSIGN_OR_RETURN(launch_.rank, Number(names.rank, 0, INT32_MAX));
  WEFT_ASSIGN_OR_RETURN(launch_.size, Number(names.size, 1, INT32_MAX));
  if (launch_.rank >= launch_.size) {
    return Problem({names.rank, names.size}, "the rank must be below the number of ranks");
  }
  launch_.local_rank = launch_.rank;
  launch_.local_size = launch_.size;
  if (Has(names.local_rank)) {
    WEFT_ASSIGN_OR_RETURN(launch_.local_rank, Number(names.local_rank, 0, launch_.size - 1));
  }
  return names.local_size != nullptr && Has(names.local_size) ? ReadLocalSize(names)
                                                              : absl::OkStatus();
}

absl::Status Reader::ReadLocalSize(const PlaceNames& names) {
  WEFT_ASSIGN_OR_RETURN(launch_.local_size, Number(names.local_size, 1, INT32_MAX));
  if (launch_.local_size > launch_.size) {
    return Problem({names.local_size, names.size}, "a node cannot have more ranks than the job");
  }
  if (!Has(names.local_rank)) launch_.local_rank = launch_.rank % launch_.local_size;
  if (launch_.local_rank >= launch_.local_size) {
    return Problem({names.local_rank, names.local_size},
                   "the local rank must be below the number of ranks of the node");
  }
  launch_.single_node = launch_.local_size == launch_.size;
  return absl::OkStatus();
}

// WEFT_MASTER_PORT, or MASTER_PORT, which is one too low where torchrun's agent listens on it itself.
absl::Status Reader::ReadPort() {
  launch_.master_host = Text("MASTER_ADDR");
  if (Has("WEFT_MASTER_PORT")) {
    WEFT_ASSIGN_OR_RETURN(launch_.master_port, Number("WEFT_MASTER_PORT", 1, 65535));
    return absl::OkStatus();
  }
  if (!Has("MASTER_PORT")) return absl::OkStatus();
  const bool taken = Text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  WEFT_ASSIGN_OR_RETURN(launch_.master_port, Number("MASTER_PORT", 1, taken ? 65534 : 65535));
  if (taken) ++launch_.master_port;
  return absl::OkStatus();
}

absl::Status Reader::ReadSecret() {
  if (Has("WEFT_JOB_SECRET_FD")) {
    WEFT_ASSIGN_OR_RETURN(const int fd, Number("WEFT_JOB_SECRET_FD", 0, INT32_MAX));
    WEFT_ASSIGN_OR_RETURN(launch_.secret, ReadJobSecretFd(fd));
  } else if (Has("WEFT_JOB_SECRET_FILE")) {
    WEFT_ASSIGN_OR_RETURN(launch_.secret, ReadJobSecretFile(Text("WEFT_JOB_SECRET_FILE")));
  }
  return absl::OkStatus();
}

absl::Status Reader::ReadWeftrun() {
  launch_.store_address = Text("WEFT_STORE");
  if (!launch_.store_address.starts_with("unix:@") && !launch_.store_address.starts_with("tcp:")) {
    return Problem({"WEFT_STORE"}, "weftrun sets unix:@name or tcp:host:port");
  }
  return ReadPlace({"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"});
}

absl::Status Reader::ReadTorchrun() {
  WEFT_RETURN_IF_ERROR(ReadPlace({"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}));
  const std::string& host = launch_.master_host;
  // Some launchers set no LOCAL_*; then only a loopback address says that there is one node.
  if (!Has("LOCAL_WORLD_SIZE") && launch_.size > 1) {
    launch_.single_node =
        host.empty() || host == "localhost" || host == "::1" || host.starts_with("127.");
    if (!launch_.single_node) launch_.local_size = launch_.local_rank + 1;
  }
  if (launch_.size > 1 && launch_.master_port == 0) {
    return Problem({"MASTER_PORT", "WEFT_MASTER_PORT"}, "one of them is needed to find rank 0");
  }
  if (!launch_.single_node && host.empty()) {
    return Problem({"MASTER_ADDR"}, "it is needed to find rank 0 on another node");
  }
  launch_.job_id = StrCat("torchrun-", Text("TORCHELASTIC_RUN_ID"), "-", host, ":",
                          launch_.master_port, "-", Text("TORCHELASTIC_RESTART_COUNT"));
  return absl::OkStatus();
}

absl::Status Reader::ReadOpenMpi() {
  WEFT_RETURN_IF_ERROR(ReadPlace({"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                  "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"}));
  const std::string job =
      Text(FirstSet({"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid"}));
  if (job.empty() && launch_.size > 1 && !Has("WEFT_JOB_ID")) {
    return Problem({"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "WEFT_JOB_ID"},
                   "the job has no name; set WEFT_JOB_ID to the same text on all ranks");
  }
  if (!launch_.single_node && (launch_.master_host.empty() || launch_.master_port == 0)) {
    return Problem({"MASTER_ADDR", "MASTER_PORT"},
                   "Open MPI does not say where rank 0 is; pass both: mpirun -x MASTER_ADDR=<host "
                   "of rank 0> -x MASTER_PORT=<free port>");
  }
  launch_.job_id = StrCat("openmpi-", job);
  return absl::OkStatus();
}

// The shell of a batch script has SLURM_PROCID too, but no step: it is no task of the job. And a
// step whose numbers differ from PMI's is the carrier of another launcher's daemons.
bool Reader::UnderSlurm() const {
  if (!Has("SLURM_PROCID") || !(Has("SLURM_STEP_ID") || Has("SLURM_STEPID"))) return false;
  const char* size = FirstSet({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
  return !UnderPmi() ||
         (Text("PMI_RANK") == Text("SLURM_PROCID") && Text("PMI_SIZE") == Text(size));
}

absl::Status Reader::ReadSlurmLocalSize(int node_count) {
  const char* tasks = FirstSet({"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  if (!Has(tasks) || !Has("SLURM_NODEID")) {
    launch_.local_size =
        std::max(launch_.local_rank + 1, (launch_.size + node_count - 1) / node_count);
    return absl::OkStatus();
  }
  WEFT_ASSIGN_OR_RETURN(const int node, Number("SLURM_NODEID", 0, node_count - 1));
  absl::StatusOr<int> local_size = SlurmTasksOfNode(Text(tasks), node);
  if (!local_size.ok()) return Problem({tasks}, FromAbsl(local_size.status().message()));
  launch_.local_size = *local_size;
  if (launch_.local_rank >= launch_.local_size) {
    return Problem({"SLURM_LOCALID", tasks, "SLURM_NODEID"},
                   "the local rank must be below the number of tasks of the node");
  }
  return absl::OkStatus();
}

absl::Status Reader::ReadSlurm() {
  const char* size = FirstSet({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
  const char* nodes = FirstSet({"SLURM_STEP_NUM_NODES", "SLURM_NNODES"});
  const char* list = FirstSet({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"});
  const char* step = FirstSet({"SLURM_STEP_ID", "SLURM_STEPID"});
  WEFT_RETURN_IF_ERROR(ReadPlace({"SLURM_PROCID", size, "SLURM_LOCALID", nullptr}));
  int node_count = 1;
  if (Has(nodes)) {
    WEFT_ASSIGN_OR_RETURN(node_count, Number(nodes, 1, launch_.size));
  }
  launch_.single_node = node_count == 1;
  launch_.job_id = StrCat("slurm-", Text("SLURM_JOB_ID"), ".", Text(step));
  if (launch_.single_node) return absl::OkStatus();
  WEFT_RETURN_IF_ERROR(ReadSlurmLocalSize(node_count));
  if (launch_.master_host.empty()) {
    if (!Has(list)) return Problem({list, "MASTER_ADDR"}, "one of them is needed to find rank 0");
    absl::StatusOr<std::string> host = FirstSlurmHost(Text(list));
    if (!host.ok()) return Problem({list}, FromAbsl(host.status().message()));
    launch_.master_host = *std::move(host);
  }
  if (launch_.master_port == 0) {
    // Below the ephemeral ports, and seldom the same for two jobs that share a node.
    int job = 0;
    WEFT_ASSIGN_OR_RETURN(job, Number("SLURM_JOB_ID", 0, INT32_MAX));
    launch_.master_port = 20000 + job % 10000;
  }
  return absl::OkStatus();
}

bool Reader::UnderPmi() const {
  return Has("PMI_RANK") && (Has("PMI_FD") || Has("PMI_PORT") || Has("PMI_SIZE"));
}

absl::Status Reader::ReadPmi() {
  WEFT_RETURN_IF_ERROR(ReadPlace({"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}));
  if (!Has("MPI_LOCALNRANKS") && launch_.size > 1) {
    launch_.single_node = false;  // not known to be one
    launch_.local_size = launch_.local_rank + 1;
  }
  if (launch_.size > 1 && !Has("PMI_FD")) {
    return Problem({"PMI_FD", "PMI_PORT"},
                   "only the inherited descriptor PMI_FD is understood; start the job with weftrun "
                   "or with an mpiexec that passes it");
  }
  if (Has("PMI_FD")) {
    WEFT_ASSIGN_OR_RETURN(launch_.pmi_fd, Number("PMI_FD", 0, INT32_MAX));
  }
  return absl::OkStatus();
}

// A scheduler that says by torchrun's variables how many ranks there are (Kubeflow) says it to each process of its pods. One that
// no torchrun and no weftrun has started would train alone, each pod the same.
absl::Status Reader::CheckNotAlone() const {
  const bool heeded = Has("WEFT_STORE") || Has("TORCHELASTIC_RUN_ID");
  if (launch_.size > 1 || heeded) return absl::OkStatus();
  for (const char* name : {"PET_NNODES", "PET_NPROC_PER_NODE"}) {
    // Of a range, "2:4", the least; a word, "auto", says no number.
    const std::string text = Text(name);
    int least = 0;
    if (!absl::SimpleAtoi(text.substr(0, text.find(':')), &least) || least <= 1) continue;
    return Problem({"PET_NNODES", "PET_NPROC_PER_NODE", "RANK", "WORLD_SIZE"},
                   "the job is to have more ranks, and this process would be a world of one; start "
                   "it by weftrun or torchrun, which read these variables, or unset them if it is "
                   "to run alone");
  }
  return absl::OkStatus();
}

absl::StatusOr<LaunchEnvironment> Reader::Read() {
  struct Launcher {
    const char* name;
    bool present;
    absl::Status (Reader::*read)();
  };

  const Launcher launchers[] = {
      {"weftrun", Has("WEFT_STORE"), &Reader::ReadWeftrun},
      {"torchrun", Has("RANK") || Has("WORLD_SIZE"), &Reader::ReadTorchrun},
      {"openmpi", Has("OMPI_COMM_WORLD_RANK") || Has("OMPI_COMM_WORLD_SIZE"), &Reader::ReadOpenMpi},
      {"slurm", UnderSlurm(), &Reader::ReadSlurm},
      {"pmi1", UnderPmi(), &Reader::ReadPmi},
  };
  launch_.launcher = "none";
  for (const Launcher& launcher : launchers) {
    if (!launcher.present) continue;
    launch_.launcher = launcher.name;
    WEFT_RETURN_IF_ERROR(ReadPort());
    WEFT_RETURN_IF_ERROR((this->*launcher.read)());
    break;
  }
  WEFT_RETURN_IF_ERROR(CheckNotAlone());
  if (Has("WEFT_JOB_ID")) launch_.job_id = Text("WEFT_JOB_ID");
  WEFT_RETURN_IF_ERROR(ReadSecret());
  return launch_;
}

}  // namespace

absl::StatusOr<LaunchEnvironment> ReadLaunchEnvironment(const EnvironmentGetter& get) {
  return Reader(get).Read();
}

absl::StatusOr<LaunchEnvironment> ReadLaunchEnvironment() {
  return ReadLaunchEnvironment(EnvironmentValue);
}

}  // namespace weft
