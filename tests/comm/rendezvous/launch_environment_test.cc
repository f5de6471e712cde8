#include "comm/rendezvous/launch_environment.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "base/text.h"
#include "comm/rendezvous/job_secret.h"
#include "comm/rendezvous/slurm_node_list.h"

namespace weft::launch_environment_test {
namespace {

using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

absl::StatusOr<LaunchEnvironment> Read(const Variables& variables) {
  return ReadLaunchEnvironment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string Describe(const LaunchEnvironment& e) {
  return StrCat(e.launcher, " rank ", e.rank, "/", e.size, " local ", e.local_rank, "/",
                e.local_size, " job ", e.job_id, " master ", e.master_host, ":", e.master_port,
                e.single_node ? " single" : " several", " store ", e.store_address);
}

struct GoodRow {
  const char* name;
  Variables variables;
  std::string expected;
};

const std::vector<GoodRow>& GoodRows() {
  static const auto* rows = new std::vector<GoodRow>{
      {"nothing", {}, "none rank 0/1 local 0/1 job  master :0 single store "},
      {"empty_values_count_as_unset",
       {{"RANK", ""}, {"WORLD_SIZE", ""}},
       "none rank 0/1 local 0/1 job  master :0 single store "},
      {"weftrun_one_node",
       {{"WEFT_STORE", "unix:@weft-x"},
        {"WEFT_JOB_ID", "j1"},
        {"RANK", "2"},
        {"WORLD_SIZE", "4"},
        {"LOCAL_RANK", "2"},
        {"LOCAL_WORLD_SIZE", "4"},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", "4000"}},
       "weftrun rank 2/4 local 2/4 job j1 master 127.0.0.1:4000 single store unix:@weft-x"},
      {"weftrun_wins_over_the_slurm_step_around_it",
       {{"WEFT_STORE", "tcp:h:5"},
        {"WEFT_JOB_ID", "j2"},
        {"RANK", "3"},
        {"WORLD_SIZE", "4"},
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "2"},
        {"SLURM_PROCID", "1"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_NTASKS", "2"}},
       "weftrun rank 3/4 local 1/2 job j2 master :0 several store tcp:h:5"},
      {"torchrun_static",
       {{"RANK", "1"},
        {"WORLD_SIZE", "2"},
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "2"},
        {"MASTER_ADDR", "localhost"},
        {"MASTER_PORT", "29500"},
        {"TORCHELASTIC_RUN_ID", "none"},
        {"TORCHELASTIC_RESTART_COUNT", "0"},
        {"TORCHELASTIC_USE_AGENT_STORE", "False"}},
       "torchrun rank 1/2 local 1/2 job torchrun-none-localhost:29500-0 master localhost:29500 "
       "single store "},
      {"torchrun_agent_keeps_the_port",
       {{"RANK", "5"},
        {"WORLD_SIZE", "8"},
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "4"},
        {"MASTER_ADDR", "node1"},
        {"MASTER_PORT", "29500"},
        {"TORCHELASTIC_USE_AGENT_STORE", "True"},
        {"TORCHELASTIC_RUN_ID", "r"},
        {"TORCHELASTIC_RESTART_COUNT", "2"}},
       "torchrun rank 5/8 local 1/4 job torchrun-r-node1:29501-2 master node1:29501 several "
       "store "},
      {"torchrun_of_one_rank_has_read_its_variables",
       {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"TORCHELASTIC_RUN_ID", "r"}, {"PET_NNODES", "2"}},
       "torchrun rank 0/1 local 0/1 job torchrun-r-:0- master :0 single store "},
      {"so_has_weftrun",
       {{"WEFT_STORE", "unix:@weft-x"}, {"RANK", "0"}, {"WORLD_SIZE", "1"}, {"PET_NNODES", "2"}},
       "weftrun rank 0/1 local 0/1 job  master :0 single store unix:@weft-x"},
      {"alone_where_torchruns_variables_say_one_or_no_number",
       {{"PET_NNODES", "1:4"}, {"PET_NPROC_PER_NODE", "auto"}},
       "none rank 0/1 local 0/1 job  master :0 single store "},
      {"own_port_overrides",
       {{"RANK", "0"},
        {"WORLD_SIZE", "2"},
        {"LOCAL_WORLD_SIZE", "1"},
        {"MASTER_ADDR", "node1"},
        {"MASTER_PORT", "29500"},
        {"WEFT_MASTER_PORT", "7000"}},
       "torchrun rank 0/2 local 0/1 job torchrun--node1:7000- master node1:7000 several store "},
      {"torch_variables_without_local_ones_on_loopback",
       {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "1"}},
       "torchrun rank 1/2 local 1/2 job torchrun--127.0.0.1:1- master 127.0.0.1:1 single store "},
      {"every_local_rank_zero_with_one_device_each",
       {{"RANK", "1"},
        {"WORLD_SIZE", "2"},
        {"LOCAL_RANK", "0"},
        {"MASTER_ADDR", "localhost"},
        {"MASTER_PORT", "1"}},
       "torchrun rank 1/2 local 0/2 job torchrun--localhost:1- master localhost:1 single store "},
      {"open_mpi_one_node",
       {{"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "3"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
        {"PMIX_NAMESPACE", "ns@1"}},
       "openmpi rank 1/3 local 1/3 job openmpi-ns@1 master :0 single store "},
      // As of more ranks than cores, on one node.
      {"open_mpi_local_ranks_in_another_order",
       {{"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "3"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
        {"PMIX_NAMESPACE", "ns@1"}},
       "openmpi rank 1/3 local 2/3 job openmpi-ns@1 master :0 single store "},
      {"open_mpi_old_job_name",
       {{"OMPI_COMM_WORLD_RANK", "0"},
        {"OMPI_COMM_WORLD_SIZE", "2"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
        {"OMPI_MCA_ess_base_jobid", "77"},
        {"MASTER_ADDR", "a"},
        {"MASTER_PORT", "9"}},
       "openmpi rank 0/2 local 0/1 job openmpi-77 master a:9 several store "},
      {"slurm_one_node",
       {{"SLURM_PROCID", "3"},
        {"SLURM_NTASKS", "4"},
        {"SLURM_LOCALID", "3"},
        {"SLURM_NNODES", "1"},
        {"SLURM_JOB_ID", "12"},
        {"SLURM_STEP_ID", "0"}},
       "slurm rank 3/4 local 3/4 job slurm-12.0 master :0 single store "},
      {"slurm_several_nodes",
       {{"SLURM_PROCID", "5"},
        {"SLURM_NTASKS", "7"},
        {"SLURM_LOCALID", "1"},
        {"SLURM_NNODES", "2"},
        {"SLURM_JOB_NODELIST", "gpu[07-08]"},
        {"SLURM_JOB_ID", "123456"},
        {"SLURM_STEP_ID", "1"},
        {"SLURM_NODEID", "1"},
        {"SLURM_TASKS_PER_NODE", "4,3"}},
       "slurm rank 5/7 local 1/3 job slurm-123456.1 master gpu07:23456 several store "},
      {"slurm_step_smaller_than_its_job",
       {{"SLURM_PROCID", "0"},
        {"SLURM_NTASKS", "8"},
        {"SLURM_STEP_NUM_TASKS", "2"},
        {"SLURM_STEP_NUM_NODES", "1"},
        {"SLURM_NNODES", "4"},
        {"SLURM_LOCALID", "0"},
        {"SLURM_JOB_ID", "1"},
        {"SLURM_STEP_ID", "4"}},
       "slurm rank 0/2 local 0/2 job slurm-1.4 master :0 single store "},
      {"shell_of_a_batch_script_is_alone",
       {{"SLURM_PROCID", "0"},
        {"SLURM_NTASKS", "8"},
        {"SLURM_LOCALID", "0"},
        {"SLURM_JOB_ID", "1"}},
       "none rank 0/1 local 0/1 job  master :0 single store "},
      {"mpiexec_whose_daemons_slurm_carries",
       {{"SLURM_PROCID", "0"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_STEP_NUM_TASKS", "2"},
        {"SLURM_JOB_ID", "1"},
        {"PMI_RANK", "3"},
        {"PMI_SIZE", "4"},
        {"PMI_FD", "6"},
        {"MPI_LOCALRANKID", "1"},
        {"MPI_LOCALNRANKS", "2"}},
       "pmi1 rank 3/4 local 1/2 job  master :0 several store "},
      {"srun_that_also_speaks_pmi",
       {{"SLURM_PROCID", "1"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_STEP_NUM_TASKS", "2"},
        {"SLURM_LOCALID", "1"},
        {"SLURM_JOB_ID", "1"},
        {"PMI_RANK", "1"},
        {"PMI_SIZE", "2"},
        {"PMI_FD", "6"}},
       "slurm rank 1/2 local 1/2 job slurm-1.0 master :0 single store "},
      {"pmi1",
       {{"PMI_RANK", "1"},
        {"PMI_SIZE", "2"},
        {"PMI_FD", "5"},
        {"MPI_LOCALRANKID", "1"},
        {"MPI_LOCALNRANKS", "2"}},
       "pmi1 rank 1/2 local 1/2 job  master :0 single store "},
  };
  return *rows;
}

TEST(LaunchEnvironment, UnderstandsEachLauncher) {
  for (const GoodRow& row : GoodRows()) {
    SCOPED_TRACE(row.name);
    const absl::StatusOr<LaunchEnvironment> launch = Read(row.variables);
    ASSERT_TRUE(launch.ok()) << launch.status();
    EXPECT_EQ(Describe(*launch), row.expected);
  }
}

struct BadRow {
  const char* name;
  Variables variables;
  std::vector<std::string> in_message;
};

const std::vector<BadRow>& BadRows() {
  static const auto* rows = new std::vector<BadRow>{
      {"rank_not_below_size", {{"RANK", "4"}, {"WORLD_SIZE", "4"}}, {"RANK=4", "WORLD_SIZE=4"}},
      {"rank_alone", {{"RANK", "4"}}, {"RANK=4", "WORLD_SIZE unset"}},
      {"size_alone", {{"WORLD_SIZE", "4"}}, {"RANK unset", "WORLD_SIZE=4"}},
      {"garbage", {{"RANK", "1x"}, {"WORLD_SIZE", "2"}}, {"RANK=1x", "whole number"}},
      {"negative", {{"RANK", "-1"}, {"WORLD_SIZE", "2"}}, {"RANK=-1"}},
      {"no_ranks", {{"RANK", "0"}, {"WORLD_SIZE", "0"}}, {"WORLD_SIZE=0"}},
      {"overflow", {{"RANK", "0"}, {"WORLD_SIZE", "99999999999"}}, {"WORLD_SIZE=99999999999"}},
      {"local_rank_too_large",
       {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}},
       {"LOCAL_RANK=2", "LOCAL_WORLD_SIZE=2"}},
      {"node_larger_than_job",
       {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "3"}},
       {"LOCAL_WORLD_SIZE=3", "WORLD_SIZE=2"}},
      {"port_missing",
       {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}},
       {"MASTER_PORT unset"}},
      {"address_missing",
       {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "1"}, {"MASTER_PORT", "1"}},
       {"MASTER_ADDR unset"}},
      {"port_too_large",
       {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_PORT", "65536"}},
       {"MASTER_PORT=65536"}},
      {"no_port_above_the_agents",
       {{"RANK", "0"},
        {"WORLD_SIZE", "1"},
        {"MASTER_PORT", "65535"},
        {"TORCHELASTIC_USE_AGENT_STORE", "True"}},
       {"MASTER_PORT=65535", "65534"}},
      {"store_of_no_known_kind",
       {{"WEFT_STORE", "http://x"}, {"RANK", "0"}, {"WORLD_SIZE", "1"}},
       {"WEFT_STORE=http://x"}},
      {"weftrun_without_rank", {{"WEFT_STORE", "unix:@a"}}, {"RANK unset", "(weftrun)"}},
      {"open_mpi_across_nodes_needs_an_address",
       {{"OMPI_COMM_WORLD_RANK", "0"},
        {"OMPI_COMM_WORLD_SIZE", "2"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
        {"PMIX_NAMESPACE", "n"}},
       {"MASTER_ADDR unset", "mpirun -x"}},
      {"open_mpi_without_a_job_name",
       {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
       {"PMIX_NAMESPACE unset", "WEFT_JOB_ID"}},
      {"slurm_node_list_broken",
       {{"SLURM_PROCID", "0"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_NNODES", "2"},
        {"SLURM_JOB_NODELIST", "n[1-"},
        {"SLURM_JOB_ID", "1"}},
       {"SLURM_JOB_NODELIST=n[1-", "']'"}},
      {"slurm_more_nodes_than_tasks",
       {{"SLURM_PROCID", "0"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_NNODES", "3"}},
       {"SLURM_NNODES=3"}},
      {"pmi_without_descriptor",
       {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"PMI_PORT", "h:1"}},
       {"PMI_FD unset", "PMI_PORT=h:1"}},
      {"alone_where_torchruns_variables_say_more_nodes",
       {{"PET_NNODES", "2"}, {"PET_NPROC_PER_NODE", "auto"}, {"PET_NODE_RANK", "1"}},
       {"PET_NNODES=2", "PET_NPROC_PER_NODE=auto", "RANK unset", "by weftrun or torchrun"}},
      {"alone_where_they_say_more_ranks",
       {{"PET_NNODES", "1"}, {"PET_NPROC_PER_NODE", "8"}},
       {"PET_NPROC_PER_NODE=8", "world of one"}},
      {"a_world_of_one_by_others_where_they_say_a_range",
       {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"PET_NNODES", "2:4"}},
       {"PET_NNODES=2:4", "WORLD_SIZE=1"}},
      {"secret_descriptor_closed", {{"WEFT_JOB_SECRET_FD", "987654"}}, {"987654", "is not open"}},
      {"secret_file_missing",
       {{"WEFT_JOB_SECRET_FILE", "/proc/none/secret"}},
       {"/proc/none/secret", "No such file"}},
  };
  return *rows;
}

TEST(LaunchEnvironment, NamesTheVariablesThatContradictEachOther) {
  for (const BadRow& row : BadRows()) {
    SCOPED_TRACE(row.name);
    const absl::StatusOr<LaunchEnvironment> launch = Read(row.variables);
    ASSERT_FALSE(launch.ok()) << Describe(*launch);
    const std::string message(launch.status().message());
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string& part : row.in_message)
      EXPECT_THAT(message, HasSubstr(part));
  }
}

TEST(SlurmNodeList, FindsTheFirstHost) {
  const std::map<std::string, std::string> rows = {
      {"node1", "node1"},       {"a,b", "a"},   {"node[003-005,9],gpu1", "node003"},
      {"r[1-2]n[7-9]", "r1n7"}, {"x[5]", "x5"}, {"n[2,4-5]-ib.cluster,z", "n2-ib.cluster"},
  };
  for (const auto& [list, host] : rows)
    EXPECT_EQ(FirstSlurmHost(list).value(), host) << list;
  for (const char* bad : {"", ",a", "[", "n[1", "n]1", "a b", "n\n"}) {
    EXPECT_FALSE(FirstSlurmHost(bad).ok()) << bad;
  }
}

TEST(SlurmNodeList, CountsTheTasksOfANode) {
  EXPECT_EQ(SlurmTasksOfNode("4(x2),3", 0).value(), 4);
  EXPECT_EQ(SlurmTasksOfNode("4(x2),3", 1).value(), 4);
  EXPECT_EQ(SlurmTasksOfNode("4(x2),3", 2).value(), 3);
  for (const char* bad : {"4(x2),3", "", "0", "4(x", "4(x0)", "x", "4(x99999999999)"}) {
    EXPECT_FALSE(SlurmTasksOfNode(bad, 3).ok()) << bad;
  }
}

TEST(JobSecret, TravelsInADescriptor) {
  const std::string secret = MakeJobSecret().value();
  EXPECT_EQ(secret.size(), 32u);
  EXPECT_NE(secret, MakeJobSecret().value());
  const UniqueFd fd = WrapJobSecret(secret).value();
  EXPECT_EQ(fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ(pwrite(fd.get(), "x", 1, 0), -1);
  for (int again = 0; again < 2; ++again) {
    const auto launch = Read({{"WEFT_JOB_SECRET_FD", std::to_string(fd.get())}});
    ASSERT_TRUE(launch.ok()) << launch.status();
    EXPECT_EQ(launch->secret, secret);
  }
}

TEST(JobSecret, ComesFromAFileThatOnlyItsOwnerReads) {
  std::string path = ::testing::TempDir() + "weft-secret-XXXXXX";
  const UniqueFd fd(mkstemp(path.data()));
  ASSERT_TRUE(fd.valid());
  const std::string text = "0123456789abcdef0123456789abcdef";
  std::ofstream(path) << text << "\n";
  EXPECT_EQ(Read({{"WEFT_JOB_SECRET_FILE", path}}).value().secret, text);

  ASSERT_EQ(fchmod(fd.get(), 0640), 0);
  const absl::Status open_to_others = ReadJobSecretFile(path).status();
  EXPECT_EQ(ResultOf(open_to_others), WEFT_AUTH_FAILED);
  EXPECT_THAT(std::string(open_to_others.message()), HasSubstr("0640"));

  ASSERT_EQ(fchmod(fd.get(), 0600), 0);
  std::ofstream(path) << "short\n";
  EXPECT_THAT(std::string(ReadJobSecretFile(path).status().message()), HasSubstr("5 bytes"));
  std::ofstream(path) << std::string(kJobSecretBytesMax + 10, 'x');
  EXPECT_FALSE(ReadJobSecretFile(path).ok());
  unlink(path.c_str());
  EXPECT_FALSE(ReadJobSecretFile("/").ok());
}

}  // namespace
}  // namespace weft::launch_environment_test
