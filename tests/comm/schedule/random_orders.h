// Trees and maps of pieces by chance, for tests.
//
//   const ReductionOrder order = RandomOrder(5, 12, &random);   // 12 pieces on 5 participants
//
// Thread-safety: none needed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "comm/schedule/reduction_order.h"

namespace weft::test {

// Merges of a tree whose shape is drawn by chance; deep ones are drawn again.
inline std::vector<uint8_t> RandomMerges(int leaves, std::mt19937_64* random) {
  std::vector<uint8_t> merges;
  int values = 0;
  for (int leaf = 0; leaf < leaves; ++leaf) {
    ++values;
    int joins = 0;
    while (values > 1 && (leaf + 1 == leaves || (*random)() % 2 == 0)) {
      --values;
      ++joins;
    }
    merges.push_back(static_cast<uint8_t>(joins));
  }
  return merges;
}

// Each of `participants` holds one piece or more of `pieces`, of either form. Also trees that Create refuses are drawn: again, until one is
// not too deep.
inline ReductionOrder RandomOrder(int participants, int pieces, std::mt19937_64* random) {
  std::vector<OrderPiece> all;
  for (int i = 0; i < pieces; ++i) {
    const int holder =
        i < participants ? i : static_cast<int>((*random)() % static_cast<uint64_t>(participants));
    all.push_back({holder, (*random)() % 2 == 0 ? UnitForm::kElement : UnitForm::kAccumulator});
  }
  std::shuffle(all.begin(), all.end(), *random);
  while (true) {
    absl::StatusOr<ReductionOrder> order =
        ReductionOrder::Create(participants, all, RandomMerges(pieces, random));
    if (order.ok()) return *std::move(order);
  }
}

}  // namespace weft::test
