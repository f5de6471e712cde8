// What stands for a call in the arrivals: two different calls whose data is in the lines never have one signature, and
// calls with and without their data there never do either.
#include "comm/group/call_identity.h"

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include <gtest/gtest.h>

#include "comm/kernels/dtype.h"
#include "comm/node/segment.h"

namespace weft::test::call_identity_test {
namespace {

uint32_t SignatureIn(const Collective& call) {
  return SignatureOf(IdentityOf(call), true);
}

uint32_t SignatureOut(const Collective& call) {
  return SignatureOf(IdentityOf(call), false);
}

TEST(CallIdentity, SignaturesOfCallsInTheLineAreTheCallsThemselves) {
  std::unordered_map<uint32_t, std::string> calls;
  for (int kind = 0; kind < kOpKindCount; ++kind) {
    for (const weft_dtype_t dtype : kDtypes) {
      for (const weft_op_t op : kReductionOps) {
        for (const auto& [algorithm, numerics] :
             {std::pair(Protocol::kAuto, WEFT_NUMERICS_CANONICAL),
              std::pair(Protocol::kAuto, WEFT_NUMERICS_FAST),
              std::pair(Protocol::kInline, WEFT_NUMERICS_CANONICAL)}) {
          for (const int root : {0, 1, kNodeRanksMax - 1}) {
            for (size_t count = 0; count <= kInlineBytes; count += count < 4 ? 1 : 11) {
              const Collective call{
                  .kind = static_cast<OpKind>(kind),
                  .dtype = dtype,
                  .op = op,
                  .root = root,
                  .count = TraitsOf(static_cast<OpKind>(kind)).local_counts ? 0 : count,
                  .algorithm = algorithm,
                  .numerics = numerics};
              const std::string name = std::to_string(kind) + " " + std::to_string(dtype) + " " +
                                       std::to_string(op) + " " + std::to_string(root) + " " +
                                       std::to_string(call.count) + " " + ProtocolName(algorithm) +
                                       (numerics == WEFT_NUMERICS_FAST ? " fast" : "");
              const auto [known, added] = calls.emplace(SignatureIn(call), name);
              ASSERT_EQ(known->second, name);
            }
          }
        }
      }
    }
  }
  EXPECT_GT(calls.size(), 50'000u);
}

TEST(CallIdentity, CallsInAndNotInTheLineNeverHaveOneSignature) {
  auto layout = std::make_shared<BlockLayout>();
  for (uint32_t number = 0; number < 20'000; ++number) {
    layout->hash = number % 3 == 0 ? number : 0;
    const Collective call{.kind = OpKind::kAllGather,
                          .dtype = WEFT_UINT8,
                          .count = number % 49,
                          .layout = layout,
                          .purpose = {.signature_salt = number}};
    EXPECT_EQ(SignatureIn(call) >> 31, 1u);
    EXPECT_EQ(SignatureOut(call) >> 31, 0u);
  }
}

// Each of them alone.
TEST(CallIdentity, DiffersInEverythingThatRanksMustAgreeOn) {
  const CustomOp one{.name = "one"}, other{.name = "other"};
  auto layout = std::make_shared<BlockLayout>();
  layout->hash = uint64_t{1} << 40;
  const Collective base{.kind = OpKind::kReduce,
                        .dtype = WEFT_FLOAT32,
                        .op = kOpUser,
                        .count = 7,
                        .custom = std::make_shared<CustomOp>(one)};
  const auto differs = [&](auto change) {
    Collective call = base;
    change(call);
    return IdentityOf(call) != IdentityOf(base) && SignatureIn(call) != SignatureIn(base) &&
           SignatureOut(call) != SignatureOut(base);
  };
  EXPECT_TRUE(differs([](Collective& c) { c.kind = OpKind::kAllReduce; }));
  EXPECT_TRUE(differs([](Collective& c) { c.dtype = WEFT_INT32; }));
  EXPECT_TRUE(differs([](Collective& c) { c.op = WEFT_SUM; }));
  EXPECT_TRUE(differs([](Collective& c) { c.root = 1; }));
  EXPECT_TRUE(differs([](Collective& c) { c.count = 8; }));
  EXPECT_TRUE(differs([](Collective& c) { c.algorithm = Protocol::kStaged; }));
  EXPECT_TRUE(differs([](Collective& c) { c.numerics = WEFT_NUMERICS_FAST; }));
  EXPECT_TRUE(differs([](Collective& c) { c.purpose.signature_salt = 1; }));
  EXPECT_TRUE(differs([&](Collective& c) { c.custom = std::make_shared<CustomOp>(other); }));
  EXPECT_TRUE(differs([&](Collective& c) { c.layout = layout; }));
  // As many values, in one element.
  const CustomOp whole{.element_count = 7, .name = "one"};
  EXPECT_TRUE(differs([&](Collective& c) {
    c.custom = std::make_shared<CustomOp>(whole);
    c.count = 1;
  }));
  // A salt cannot stand for a root.
  EXPECT_TRUE(differs([](Collective& c) { c.root = 1, c.purpose.signature_salt = 1; }));
}

// What only this rank knows.
TEST(CallIdentity, IsTheSameWhateverIsLocal) {
  const Collective base{.kind = OpKind::kAllToAllV, .dtype = WEFT_INT8, .count = 70};
  Collective call = base;
  int memory = 0;
  call.count = 9;
  call.in = call.out = &memory;
  call.timeout_ns = 5;
  call.priority = 3;
  call.tag = 11;
  EXPECT_EQ(IdentityOf(call), IdentityOf(base));
  EXPECT_EQ(SignatureOut(call), SignatureOut(base));
}

}  // namespace
}  // namespace weft::test::call_identity_test
