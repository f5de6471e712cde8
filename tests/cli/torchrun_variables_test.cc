#include "cli/weftrun/torchrun_variables.h"

#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "base/text.h"

namespace weft::torchrun_variables_test {
namespace {

using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

absl::Status Fill(const Variables& variables, JobShape* shape, bool devices = false) {
  return FillFromTorchrunVariables(
      [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      {.cpus = 6, .devices = devices}, shape);
}

std::string Describe(const JobShape& shape) {
  const auto number = [](const std::optional<int>& value) {
    return value.has_value() ? std::to_string(*value) : "-";
  };
  return StrCat(number(shape.ranks_per_node), " ranks, node ", number(shape.node_rank), " of ",
                number(shape.node_count), ", ", shape.master_host.value_or("-"), " ",
                number(shape.master_port));
}

std::string Filled(const Variables& variables, JobShape shape = {}) {
  const absl::Status status = Fill(variables, &shape);
  return status.ok() ? Describe(shape) : std::string(status.message());
}

TEST(TorchrunVariables, SayWhatTorchrunsOptionsSay) {
  EXPECT_EQ(Filled({}), "- ranks, node - of -, - -");
  EXPECT_EQ(Filled({{"PET_NNODES", "2"},
                    {"PET_NPROC_PER_NODE", "8"},
                    {"PET_NODE_RANK", "1"},
                    {"PET_MASTER_ADDR", "job-node-0-0.job"},
                    {"PET_MASTER_PORT", "29400"}}),
            "8 ranks, node 1 of 2, job-node-0-0.job 29400");
  EXPECT_EQ(Filled({{"PET_NNODES", "3:3"}, {"PET_NODE_RANK", "2"}}), "- ranks, node 2 of 3, - -");
  EXPECT_EQ(Filled({{"PET_NNODES", ""}, {"PET_NPROC_PER_NODE", "cpu"}}),
            "6 ranks, node - of -, - -");
  EXPECT_EQ(Filled({{"PET_NPROC_PER_NODE", "auto"}}), "6 ranks, node - of -, - -");
  EXPECT_EQ(Filled({{"PET_MASTER_ADDR", "a"}}), "- ranks, node - of -, a 29500");
}

TEST(TorchrunVariables, AnEndpointComesBeforeAnAddress) {
  const Variables addresses = {{"PET_MASTER_ADDR", "a"}, {"PET_MASTER_PORT", "1"}};
  for (const auto& [endpoint, master] : Variables{{"b:2", "b 2"},
                                                  {"b", "b 29400"},
                                                  {"localhost:0", "localhost 0"},
                                                  {"[fd00::1]:3", "fd00::1 3"},
                                                  {"[fd00::1]", "fd00::1 29400"},
                                                  {"fd00::1", "fd00::1 29400"}}) {
    Variables variables = addresses;
    variables["PET_RDZV_ENDPOINT"] = endpoint;
    EXPECT_EQ(Filled(variables), "- ranks, node - of -, " + master) << endpoint;
  }
}

TEST(TorchrunVariables, WhatTheCommandLineSaysCountsAndTheVariableIsNotEvenRead) {
  const JobShape said = {.ranks_per_node = 4,
                         .node_count = 2,
                         .node_rank = 0,
                         .master_host = "mine",
                         .master_port = 7};
  EXPECT_EQ(Filled({{"PET_NNODES", "x"},
                    {"PET_NPROC_PER_NODE", "gpu"},
                    {"PET_NODE_RANK", "-1"},
                    {"PET_RDZV_ENDPOINT", ":"},
                    {"PET_MASTER_ADDR", "a"}},
                   said),
            Describe(said));
  EXPECT_EQ(Filled({{"PET_NNODES", "4"}, {"PET_NODE_RANK", "3"}}, {.node_count = 1}),
            "- ranks, node - of 1, - -")
      << "one node, on whichever of them";
}

TEST(TorchrunVariables, WhatWeftrunCannotDoIsRefusedByName) {
  const std::pair<Variables, const char*> rows[] = {
      {{{"PET_NNODES", "1:4"}}, "PET_NNODES=1:4: weftrun starts a fixed number of nodes"},
      {{{"PET_NNODES", "0"}}, "PET_NNODES=0: must be a whole number from 1 to 65536"},
      {{{"PET_NPROC_PER_NODE", "gpu"}}, "PET_NPROC_PER_NODE=gpu: weftrun does not count devices"},
      {{{"PET_NPROC_PER_NODE", "many"}}, "PET_NPROC_PER_NODE=many: must be a whole number"},
      {{{"PET_NNODES", "2"}, {"PET_NODE_RANK", "one"}}, "PET_NODE_RANK=one: must be"},
      {{{"PET_MASTER_PORT", "65535"}}, "PET_MASTER_PORT=65535: must be"},
      {{{"PET_RDZV_ENDPOINT", "b:x"}}, "PET_RDZV_ENDPOINT=b:x: its port must be"},
      {{{"PET_RDZV_ENDPOINT", ":5"}}, "PET_RDZV_ENDPOINT=:5: it has no host"},
  };
  for (const auto& [variables, part] : rows)
    EXPECT_THAT(Filled(variables), HasSubstr(part));
  JobShape shape;
  EXPECT_THAT(std::string(Fill({{"PET_NPROC_PER_NODE", "auto"}}, &shape, true).message()),
              HasSubstr("does not count devices; give -n"));
}

}  // namespace
}  // namespace weft::torchrun_variables_test
