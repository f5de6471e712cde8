// A group of processes, on one node or over fake ones, for tests of the C interface.
//
//   OnForkedGroup({.size = 3, .nodes = "0,1,0"}, [](const GroupRank& self) -> std::string {
//     SAY_UNLESS(weft_barrier(self.group, nullptr, nullptr) == WEFT_SUCCESS);
//     return "";
//   });
#pragma once

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "weft/weft.h"

#include "tests/bindings/local_threads.h"
#include "tests/support/forked_ranks.h"

namespace weft::test {

// Of a rank's body: ends it with what is wrong, and why.
#define SAY_UNLESS(condition)                                                  \
  do {                                                                         \
    if (!(condition)) return std::string(#condition ": ") + weft_last_error(); \
  } while (0)

struct NodesOfGroup {
  int size;
  const char* nodes = "";  // as WEFT_FAKE_NODES; "": one
};

struct GroupRank {
  weft_group_t group;
  int rank;
  int size;
};

// Each rank makes the group, runs the body, which says what is wrong, and destroys the group.
inline void OnForkedGroup(const NodesOfGroup& shape,
                          const std::function<std::string(const GroupRank& self)>& body) {
  SCOPED_TRACE(testing::Message() << shape.size << " ranks, nodes \"" << shape.nodes << "\"");
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::vector<RankEnd> ranks = RunForkedRanks(shape.size, 120, [&](int rank) -> std::string {
    setenv("WEFT_FAKE_NODES", shape.nodes, 1);
    weft_unique_id_t id;
    if (rank == 0) {
      SAY_UNLESS(weft_unique_id_create(&id) == WEFT_SUCCESS);
      for (int other = 1; other < shape.size; ++other)
        SAY_UNLESS(write(ends[1], &id, sizeof(id)) == sizeof(id));
    } else {
      SAY_UNLESS(read(ends[0], &id, sizeof(id)) == sizeof(id));
    }
    const weft_group_config_t config = ConfigNamed("forked");
    weft_group_t group = nullptr;
    SAY_UNLESS(weft_group_create_from_id(&id, shape.size, rank, &config, &group) == WEFT_SUCCESS);
    std::string problem = body({group, rank, shape.size});
    if (!problem.empty()) return problem;
    SAY_UNLESS(weft_group_destroy(group) == WEFT_SUCCESS);
    return "";
  });
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    EXPECT_EQ(ranks[rank].Problem(), "") << "rank " << rank;
  close(ends[0]);
  close(ends[1]);
}

}  // namespace weft::test
