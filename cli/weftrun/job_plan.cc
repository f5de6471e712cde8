#include "cli/weftrun/job_plan.h"

#include <algorithm>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/escaping.h"
#include "base/log.h"
#include "base/new_fd.h"
#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/rendezvous/job_secret.h"

namespace weft {
namespace {

// A port of the loopback address that nobody has now. weft itself needs none on one node; the program
// may, for something of its own.
int FreePort() {
  const UniqueFd fd = MakeSocket(AF_INET, SOCK_STREAM);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(fd.get(), generic, length) != 0 || getsockname(fd.get(), generic, &length) != 0) {
    return 29500;
  }
  return ntohs(address.sin_port);
}

absl::StatusOr<std::string> NewJobName() {
  WEFT_ASSIGN_OR_RETURN(const std::string random, MakeJobSecret());
  return StrCat("weftrun-", getpid(), "-",
                absl::BytesToHexString(absl::string_view(random.data(), 8)));
}

// The name is that of the job; each start of it has one of its own, too, which tells what is left of an earlier start apart.
std::string IdOfStart(const std::string& job_name, int restart) {
  return restart > 0 ? StrCat(job_name, "-restart", restart) : job_name;
}

absl::Status PlanOneNode(const RunOptions& options, const std::string& job_name, JobPlan* plan) {
  WEFT_ASSIGN_OR_RETURN(plan->secret, MakeJobSecret());
  plan->job_name = job_name;
  if (job_name.empty()) {
    WEFT_ASSIGN_OR_RETURN(plan->job_name, NewJobName());
  }
  plan->job_id = IdOfStart(plan->job_name, plan->restart);
  plan->store = {.kind = Endpoint::Kind::kUnix, .host = plan->job_id};
  plan->place = {.size = options.ranks_per_node};
  plan->master_host = options.master_host.empty() ? "127.0.0.1" : options.master_host;
  plan->master_port = options.master_port != 0 ? options.master_port : FreePort();
  return absl::OkStatus();
}

absl::Status PlanSeveralNodes(const RunOptions& options, JobPlan* plan) {
  const Options& settings = GetOptions();
  if (!settings.job_secret_file.empty()) {
    WEFT_ASSIGN_OR_RETURN(plan->secret, ReadJobSecretFile(settings.job_secret_file));
  } else if (settings.insecure) {
    if (plan->restart == 0) {
      LogWarn("WEFT_INSECURE=1: whoever reaches ", options.master_host,
              " can join this job and read what it exchanges");
    }
  } else {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     "ranks on several nodes need a shared secret: put one in a file that only you "
                     "can read, the same on every node, and set WEFT_JOB_SECRET_FILE to its path; "
                     "or accept strangers on the network with WEFT_INSECURE=1");
  }
  plan->master_host = options.master_host;
  plan->master_port = options.master_port;
  plan->job_name = settings.job_id.empty()
                       ? StrCat("weftrun-", plan->master_host, ":", plan->master_port)
                       : settings.job_id;
  plan->job_id = IdOfStart(plan->job_name, plan->restart);
  WEFT_ASSIGN_OR_RETURN(plan->store.host,
                        ResolveHost(options.master_host, MonotonicNs() + TimeoutOrDefault(0)));
  plan->store.kind = Endpoint::Kind::kTcp;
  plan->store.port = static_cast<uint16_t>(settings.master_port != 0 ? settings.master_port
                                                                     : options.master_port + 1);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JobPlan> PlanJob(const RunOptions& options, int restart,
                                const std::string& job_name) {
  JobPlan plan;
  plan.restart = restart;
  WEFT_RETURN_IF_ERROR(options.node_count == 1 ? PlanOneNode(options, job_name, &plan)
                                               : PlanSeveralNodes(options, &plan));
  if (!plan.secret.empty()) {
    WEFT_ASSIGN_OR_RETURN(plan.secret_fd, WrapJobSecret(plan.secret));
  }
  return plan;
}

Variables JobPlan::VariablesOf(int local_rank, int rank_restart, const RunOptions& options) const {
  const int rank = place.first_rank + local_rank;
  Variables variables = {
      {"RANK", StrCat(rank)},
      {"WORLD_SIZE", StrCat(place.size)},
      {"LOCAL_RANK", StrCat(local_rank)},
      {"LOCAL_WORLD_SIZE", StrCat(options.ranks_per_node)},
      {"NODE_RANK", StrCat(options.node_rank)},
      {"MASTER_ADDR", master_host},
      {"MASTER_PORT", StrCat(master_port)},
      {"WEFT_JOB_ID", job_id},
      {"WEFT_STORE", store.ToString()},
      {"WEFT_RESTART_COUNT", StrCat(restart + rank_restart)},
  };
  if (secret_fd.valid()) variables.emplace_back("WEFT_JOB_SECRET_FD", StrCat(secret_fd.get()));
  if (rank_restart > 0) variables.emplace_back("WEFT_JOIN", "1");
  return variables;
}

Variables DefaultVariables(int cpus, int ranks) {
  return {{"OMP_NUM_THREADS", StrCat(std::max(1, cpus / ranks))},
          {"OMP_WAIT_POLICY", "passive"},
          {"GOMP_SPINCOUNT", "0"}};
}

}  // namespace weft
