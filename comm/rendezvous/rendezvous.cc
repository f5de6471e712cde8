// However a job was started, it comes down to a Plan: where the store is and whether this rank serves it. Only plans differ;
// Join() is the same for all. Ranks make their plans without talking to each other, so a plan may depend only on what the
// launcher gave all of them alike. Keys have a prefix, because one store may serve several rendezvous, and restarts of a job.
#include "comm/rendezvous/rendezvous.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <unistd.h>

#include "base/interfaces.h"
#include "base/keyed_hash.h"
#include "base/log.h"
#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/rendezvous/job_store.h"
#include "comm/rendezvous/launch_environment.h"
#include "comm/rendezvous/master_endpoints.h"
#include "comm/rendezvous/pmi_id.h"
#include "comm/rendezvous/prefix_store.h"
#include "comm/rendezvous/remote_store.h"
#include "comm/rendezvous/served_id.h"
#include "comm/rendezvous/store_host.h"
#include "comm/rendezvous/unique_id.h"
#include "comm/rendezvous/used_ids.h"

namespace weft {
namespace {

constexpr int kWorldMax = 65536;

// The host until the last copy of this goes, which releases it; nullptr stays what it is.
std::shared_ptr<StoreHost> Held(std::shared_ptr<StoreHost> host) {
  if (host == nullptr) return nullptr;
  StoreHost* const held = host.get();
  return {held, [host = std::move(host)](StoreHost*) {
            host->Release();
          }};
}

// How to reach a store, and what to serve if this rank is the one that hosts it.
struct Plan {
  std::vector<Endpoint> endpoints;
  std::string secret;
  int64_t uid = -1;
  bool insecure = false;
  bool hosts = false;
  std::shared_ptr<StoreHost> host;  // held, if it serves already
  std::string host_hint;
  std::string gone_hint;
  std::string address_hint;
  std::string prefix;  // of the keys
};

// The store of a Rendezvous: a connection, a name space of its own in the store, and the server if
// this process hosts it.
class WorldStore : public Store {
 public:
  WorldStore(std::shared_ptr<StoreHost> host, const StoreClientOptions& options, std::string prefix)
      : host_(std::move(host)),
        remote_(SystemSeams(), options),
        keys_(remote_, std::move(prefix)) {}

  absl::Status Connect() { return remote_.Connect(); }

  StoreReply Ask(StoreRequest request) override { return keys_.Ask(std::move(request)); }

  std::string Where() const override {
    return StrCat(remote_.Where(), host_ == nullptr ? "" : ", which this process serves");
  }

 private:
  const std::shared_ptr<StoreHost> host_;  // released after the connection is closed
  RemoteStore remote_;
  PrefixStore keys_;
};

absl::StatusOr<std::unique_ptr<Store>> Join(Plan plan, int rank, int size, int64_t deadline_ns) {
  if (plan.hosts && plan.host == nullptr) {
    const StoreServerOptions options{
        .secret = plan.secret, .insecure = plan.insecure, .uid = plan.uid};
    WEFT_ASSIGN_OR_RETURN(std::shared_ptr<StoreHost> host,
                          StoreHost::Start(options, &plan.endpoints, deadline_ns));
    plan.host = Held(std::move(host));
  }
  StoreClientOptions options;
  options.endpoints = std::move(plan.endpoints);
  options.secret = std::move(plan.secret);
  options.rank = rank;
  options.size = size;
  options.connect_deadline_ns = deadline_ns;
  options.host_hint = std::move(plan.host_hint);
  options.gone_hint = std::move(plan.gone_hint);
  options.address_hint = std::move(plan.address_hint);
  options.server_uid = plan.uid;
  auto store = std::make_unique<WorldStore>(std::move(plan.host), options, std::move(plan.prefix));
  WEFT_RETURN_IF_ERROR(store->Connect());
  return std::unique_ptr<Store>(std::move(store));
}

// Which of the rendezvous of this process this is. They are collective, so all ranks count alike; a
// store that serves several of them keeps their keys apart by it.
int NextGeneration() {
  static std::atomic<int> generation{0};
  return ++generation;
}

absl::StatusOr<Plan> PlanForWeftrun(const LaunchEnvironment& launch, int64_t deadline_ns) {
  Plan plan;
  WEFT_ASSIGN_OR_RETURN(const Endpoint endpoint, WeftrunEndpoint(launch, deadline_ns));
  plan.endpoints = {endpoint};
  plan.secret = launch.secret;
  plan.host_hint = launch.launcher;
  if (endpoint.kind == Endpoint::Kind::kTcp) plan.address_hint = "weftrun's --master-addr";
  return plan;
}

// One machine: a socket that only this user may use, named after user and job. Nothing to configure.
absl::StatusOr<Plan> PlanForOneNode(const LaunchEnvironment& launch) {
  std::string job =
      StrCat(launch.launcher, "|", launch.job_id, "|", launch.master_host, "|", launch.master_port);
  // Without any name for the job, the process that started all its ranks stands for it.
  if (launch.job_id.empty() && launch.master_port == 0) job += StrCat("|", getppid());
  Plan plan;
  plan.uid = geteuid();
  const std::string name =
      HashName("weft store on one node", StrCat(plan.uid, "|", job), kNameHashBytes);
  plan.endpoints = {{.kind = Endpoint::Kind::kUnix, .host = StrCat("weft-", name)}};
  plan.secret = launch.secret;
  plan.hosts = launch.rank == 0;
  plan.host_hint = "rank 0";
  return plan;
}

absl::StatusOr<Plan> PlanForSeveralNodes(const LaunchEnvironment& launch, int64_t deadline_ns) {
  Plan plan;
  plan.secret = launch.secret;
  plan.insecure = GetOptions().insecure;
  if (plan.secret.empty() && !plan.insecure) {
    return MakeError(
        WEFT_AUTH_FAILED,
        StrCat("rank ", launch.rank, " will not join a job on several nodes (", launch.launcher,
               ") without a secret; set WEFT_JOB_SECRET_FILE to a file with the same secret on "
               "every node, start the ranks with weftrun, or set WEFT_INSECURE=1 on a network you "
               "trust"));
  }
  if (plan.secret.empty()) {
    LogWarn("WEFT_INSECURE=1: whoever reaches ", launch.master_host, ":", launch.master_port,
            " can join this job");
  }
  if (launch.master_host.empty() || launch.master_port == 0) {
    return MakeError(
        WEFT_INVALID_USAGE,
        StrCat("rank ", launch.rank, " does not know where rank 0 listens: ", launch.launcher,
               " gave the address \"", launch.master_host, "\" and port ", launch.master_port,
               "; set MASTER_ADDR and WEFT_MASTER_PORT on every rank"));
  }
  WEFT_ASSIGN_OR_RETURN(const std::string host, ResolveHost(launch.master_host, deadline_ns));
  const auto port = static_cast<uint16_t>(launch.master_port);
  plan.endpoints = {{.kind = Endpoint::Kind::kTcp, .host = host, .port = port}};
  plan.hosts = launch.rank == 0;
  if (plan.hosts) {
    WEFT_ASSIGN_OR_RETURN(plan.endpoints,
                          MasterEndpoints({"MASTER_ADDR", launch.master_host}, host, port));
  }
  plan.host_hint = "rank 0";
  plan.address_hint = StrCat("MASTER_ADDR=", launch.master_host, ", or the launcher's word");
  return plan;
}

// Several nodes under PMI-1, whose ranks were not told where rank 0 is.
absl::StatusOr<Plan> PlanThroughPmi(const LaunchEnvironment& launch, int64_t deadline_ns) {
  WEFT_ASSIGN_OR_RETURN(ServedId pmi, IdThroughPmi(launch, deadline_ns));
  Plan plan;
  plan.hosts = launch.rank == 0;
  plan.host = Held(std::move(pmi.host));
  plan.secret = launch.secret.empty() ? pmi.id.secret : launch.secret;
  plan.host_hint = "rank 0";
  absl::StatusOr<std::vector<Endpoint>> endpoints = EndpointsOf(pmi.id);
  if (!endpoints.ok()) {
    return Annotate(endpoints.status(),
                    StrCat("rank ", launch.rank,
                           " cannot reach rank 0; set MASTER_ADDR to the address where it shall "
                           "listen: "));
  }
  plan.endpoints = *std::move(endpoints);
  return plan;
}

constexpr std::string_view kIdAdvice =
    "an id makes one group; make another one for the next (weft_unique_id_create)";

// The use of an id by a rank, as UsedIds has it.
uint64_t UseOf(const UniqueId& id, int rank) {
  const std::string hash = KeyedHash(id.secret, StrCat("used by rank ", rank));
  uint64_t use = 0;
  std::memcpy(&use, hash.data(), sizeof(use));
  return use | 1;
}

absl::StatusOr<Plan> PlanFromEnvironment(const LaunchEnvironment& launch, int64_t deadline_ns) {
  if (!launch.store_address.empty()) return PlanForWeftrun(launch, deadline_ns);
  if (launch.single_node) return PlanForOneNode(launch);
  if (NeedsPmi(launch)) return PlanThroughPmi(launch, deadline_ns);
  return PlanForSeveralNodes(launch, deadline_ns);
}

}  // namespace

absl::StatusOr<Rendezvous> RendezvousFromEnvironment(int64_t deadline_ns) {
  WEFT_ASSIGN_OR_RETURN(const LaunchEnvironment launch, ReadLaunchEnvironment());
  Rendezvous rendezvous;
  rendezvous.rank = launch.rank;
  rendezvous.size = launch.size;
  const int generation = NextGeneration();
  if (launch.size == 1) return rendezvous;
  absl::StatusOr<Plan> plan = PlanFromEnvironment(launch, deadline_ns);
  if (!plan.ok()) return plan.status();
  // After a restart the store may be the same, with what the ranks before left there.
  const int64_t restart = GetOptions().restart_count;
  plan->prefix = restart == 0 ? StrCat(generation, "/") : StrCat(restart, ".", generation, "/");
  WEFT_ASSIGN_OR_RETURN(rendezvous.store,
                        Join(*std::move(plan), launch.rank, launch.size, deadline_ns));
  return rendezvous;
}

absl::StatusOr<weft_unique_id_t> CreateUniqueId() {
  Endpoint tcp{.kind = Endpoint::Kind::kTcp};
  WEFT_ASSIGN_OR_RETURN(const OwnAddresses own, AddressesForOthers());
  if (!own.rails.empty()) tcp.host = own.rails.front();
  // Nobody releases this host: it ends when every rank has come and left, or with the process.
  WEFT_ASSIGN_OR_RETURN(const ServedId served, ServeUniqueId(tcp, "", MonotonicNs()));
  return EncodeUniqueId(served.id);
}

absl::StatusOr<Rendezvous> RendezvousFromId(const weft_unique_id_t& bytes, int size, int rank,
                                            int64_t deadline_ns) {
  if (size < 1 || size > kWorldMax || rank < 0 || rank >= size) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("rank ", rank, " of ", size, " is not possible; sizes are 1 to ",
                            kWorldMax, " and ranks 0 to size - 1"));
  }
  WEFT_ASSIGN_OR_RETURN(const UniqueId id, DecodeUniqueId(bytes));
  const uint64_t use = UseOf(id, rank);
  if (UsedIds::OfProcess().Has(use)) {
    return MakeError(WEFT_INVALID_USAGE, {.rank = rank},
                     StrCat("the unique id was used already: this process, pid ", getpid(),
                            ", came with it as rank ", rank, " before; ", kIdAdvice));
  }
  Plan plan;
  plan.secret = id.secret;
  plan.gone_hint =
      StrCat("a group was made with the unique id already, or that process has ended; ", kIdAdvice);
  plan.host_hint = "the process that made the unique id";
  plan.address_hint = "its WEFT_IFNAME, or automatically";
  WEFT_ASSIGN_OR_RETURN(plan.endpoints, EndpointsOf(id));
  Rendezvous rendezvous;
  rendezvous.rank = rank;
  rendezvous.size = size;
  WEFT_ASSIGN_OR_RETURN(rendezvous.store, Join(std::move(plan), rank, size, deadline_ns));
  UsedIds::OfProcess().Add(use);
  // A world of one needs no store; having come and left, it ends the server.
  if (size == 1) rendezvous.store.reset();
  return rendezvous;
}

}  // namespace weft
