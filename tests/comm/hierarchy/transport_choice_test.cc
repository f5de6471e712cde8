// By what ranks of different nodes talk: each rank's wish, and what all make of them.
#include "comm/hierarchy/transport_choice.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"
#include "base/text.h"
#include "comm/hierarchy/make_group.h"
#include "comm/rendezvous/membership_exchange.h"
#include "tests/comm/node/directory_store.h"
#include "tests/support/forked_ranks.h"

namespace weft::test::transport_choice_test {
namespace {

GroupMember Member(int rank, const char* transport, const char* ucx, const char* refusal = "") {
  GroupMember member;
  member.rank = rank;
  member.host = "h";
  member.transport = transport;
  member.ucx = ucx;
  member.ucx_refusal = refusal;
  return member;
}

std::string ErrorOf(const Membership& membership, weft_result_t result) {
  const absl::StatusOr<bool> ucx = AgreeOnUcx(membership, "g");
  if (ucx.ok()) return *ucx ? "over UCX" : "over TCP";
  EXPECT_EQ(weft::ResultOf(ucx.status()), result) << ucx.status();
  return std::string(ucx.status().message());
}

TEST(TransportChoice, UcxIsTakenWhereAllRanksHaveIt) {
  EXPECT_TRUE(*AgreeOnUcx({.members = {Member(0, "auto", "a"), Member(1, "auto", "b")}}, "g"));
  EXPECT_TRUE(*AgreeOnUcx({.members = {Member(0, "ucx", "a"), Member(1, "ucx", "b")}}, "g"));
  EXPECT_FALSE(*AgreeOnUcx({.members = {Member(0, "auto", "a"), Member(1, "auto", "")}}, "g"));
  EXPECT_FALSE(
      *AgreeOnUcx({.members = {Member(0, "auto", ""), Member(1, "auto", "", "no module")}}, "g"));
  EXPECT_FALSE(*AgreeOnUcx({.members = {Member(0, "tcp", ""), Member(1, "tcp", "")}}, "g"));
}

TEST(TransportChoice, ARankWithoutUcxThatIsAskedForIsNamed) {
  EXPECT_EQ(ErrorOf({.members = {Member(0, "ucx", "a"), Member(1, "ucx", "", "no module")}},
                    WEFT_UNSUPPORTED),
            "group g: WEFT_TRANSPORT=ucx, but for rank 1 on h: no module");
}

TEST(TransportChoice, WishesThatDifferAreAnError) {
  EXPECT_EQ(
      ErrorOf({.members = {Member(0, "ucx", "a"), Member(1, "ucx", "a"), Member(2, "tcp", "")}},
              WEFT_INVALID_ARGUMENT),
      "group g: WEFT_TRANSPORT is ucx for rank 0 on h and tcp for rank 2 on h; set the same "
      "everywhere");
}

TEST(TransportChoice, WithoutAdaptersAutoOpensNothing) {
  GroupMember self;
  const auto tcp = OfferTransports("tcp", &self);
  ASSERT_TRUE(tcp.ok());
  EXPECT_EQ(*tcp, nullptr);
  EXPECT_EQ(self.transport, "tcp");
  ASSERT_TRUE(OfferTransports("", &self).ok());
  EXPECT_EQ(self.transport, "auto");
}

TEST(TransportChoice, AWishForWhatThereIsNotIsAnError) {
  GroupMember self;
  const auto offer = OfferTransports("carrier pigeons", &self);
  ASSERT_FALSE(offer.ok());
  EXPECT_EQ(weft::ResultOf(offer.status()), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(offer.status().message()),
            "WEFT_TRANSPORT=carrier pigeons is not one of auto, tcp, ucx");
}

TEST(TransportChoice, WhatIsSaidOfItTravelsWithTheMember) {
  for (GroupMember member : {Member(3, "ucx", "binary"), Member(3, "auto", "", "why not")}) {
    if (!member.ucx.empty()) member.ucx = std::string("\0\xff\n", 3) + std::string(1000, '\1');
    WireWriter writer;
    WriteMember(member, writer);
    const std::string line = writer.Take();
    WireReader reader(line);
    GroupMember read;
    ReadMember(reader, read);
    EXPECT_TRUE(reader.Finished());
    EXPECT_EQ(read.transport, member.transport);
    EXPECT_EQ(read.ucx, member.ucx);
    EXPECT_EQ(read.ucx_refusal, member.ucx_refusal);
  }
}

// All ranks get the same sentence, at once.
TEST(TransportChoice, RanksThatWantDifferentThingsHaveNoGroup) {
  constexpr int64_t kLongNs = 60'000'000'000;
  const TemporaryDirectory directory;
  const auto ends = RunForkedRanks(3, 30, [&](int rank) -> std::string {
    DirectoryStore store(directory.path());
    const auto group = MakeGroup(&store, rank, 3, {.name = "n", .init_timeout_ns = kLongNs},
                                 {.fake_nodes = "3", .transport = rank == 1 ? "tcp" : "auto"});
    if (group.ok()) return "it was made";
    const std::string said(group.status().message());
    const bool right = weft::ResultOf(group.status()) == WEFT_INVALID_ARGUMENT &&
                       said.find("WEFT_TRANSPORT is auto for rank 0") != std::string::npos &&
                       said.find("tcp for rank 1") != std::string::npos;
    return right ? "" : said;
  });
  for (const RankEnd& end : ends)
    EXPECT_EQ(end.Problem(), "");
}

}  // namespace
}  // namespace weft::test::transport_choice_test
