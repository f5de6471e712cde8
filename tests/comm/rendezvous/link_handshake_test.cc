#include "comm/rendezvous/link_handshake.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "base/seams.h"
#include "base/status.h"

namespace weft::test::link_handshake_test {
namespace {

// Brings what one side has written to the other, some bytes at a time, as far as that wants them.
absl::Status Carry(LinkHandshake* to, std::string* wire, std::string* in, size_t step) {
  while (!wire->empty() && to->wanted() > 0) {
    const size_t bytes = std::min({step, wire->size(), to->wanted() - in->size()});
    in->append(*wire, 0, bytes);
    wire->erase(0, bytes);
    WEFT_RETURN_IF_ERROR(to->Take(in));
  }
  return absl::OkStatus();
}

struct Ends {
  explicit Ends(std::string_view dialled_secret, std::string_view accepted_secret = "")
      : dialled(LinkHandshake::Dialled(std::string(dialled_secret), {.rank = 3, .size = 7},
                                       *SystemSeams().random)),
        accepted(LinkHandshake::Accepted(
            std::string(accepted_secret.empty() ? dialled_secret : accepted_secret),
            *SystemSeams().random)) {}

  absl::Status Run(size_t step) {
    std::string none;
    WEFT_RETURN_IF_ERROR(accepted.Take(&none));
    while (!dialled.done() || !accepted.done()) {
      to_dialled += accepted.TakeOutput();
      WEFT_RETURN_IF_ERROR(Carry(&dialled, &to_dialled, &in_dialled, step));
      to_accepted += dialled.TakeOutput();
      WEFT_RETURN_IF_ERROR(Carry(&accepted, &to_accepted, &in_accepted, step));
    }
    return absl::OkStatus();
  }

  LinkHandshake dialled;
  LinkHandshake accepted;
  std::string to_dialled;
  std::string to_accepted;
  std::string in_dialled;
  std::string in_accepted;
};

TEST(LinkHandshake, BothSidesGetTheSameKeysAndTheClaim) {
  for (const size_t step : {size_t{1}, size_t{7}, size_t{1000}}) {
    Ends ends("secret");
    ASSERT_TRUE(ends.Run(step).ok());
    EXPECT_EQ(ends.accepted.claim().rank, 3);
    EXPECT_EQ(ends.accepted.claim().size, 7);
    EXPECT_EQ(ends.dialled.keys().client_key, ends.accepted.keys().client_key);
    EXPECT_EQ(ends.dialled.keys().server_key, ends.accepted.keys().server_key);
    EXPECT_NE(ends.dialled.keys().server_key, ends.accepted.keys().client_key);
    EXPECT_TRUE(ends.to_dialled.empty() && ends.to_accepted.empty());
  }
}

TEST(LinkHandshake, KeysDifferFromConnectionToConnection) {
  Ends one("secret");
  Ends other("secret");
  ASSERT_TRUE(one.Run(1000).ok() && other.Run(1000).ok());
  EXPECT_NE(one.dialled.keys().client_key, other.dialled.keys().client_key);
}

TEST(LinkHandshake, WhoDoesNotKnowTheSecretIsRefused) {
  Ends ends("secret", "another secret");
  EXPECT_EQ(ResultOf(ends.Run(1000)), WEFT_AUTH_FAILED);
  EXPECT_FALSE(ends.accepted.done());
}

TEST(LinkHandshake, AChangedByteIsNoticed) {
  for (const size_t at : {size_t{12}, size_t{47}}) {
    Ends ends("secret");
    std::string none;
    ASSERT_TRUE(ends.accepted.Take(&none).ok());
    ends.to_dialled = ends.accepted.TakeOutput();
    ASSERT_LT(at, ends.to_dialled.size());
    ends.to_dialled[at] = static_cast<char>(ends.to_dialled[at] ^ 1);
    const absl::Status ended = ends.Run(1000);
    EXPECT_FALSE(ended.ok()) << "byte " << at;
    EXPECT_FALSE(ends.accepted.done());
  }
}

TEST(LinkHandshake, StrangersAreNamed) {
  LinkHandshake accepted = LinkHandshake::Accepted("secret", *SystemSeams().random);
  std::string in;
  ASSERT_TRUE(accepted.Take(&in).ok());
  in = "GET / HTTP/1.1\r\n";
  const absl::Status refused = accepted.Take(&in);
  EXPECT_EQ(ResultOf(refused), WEFT_CORRUPT);
  EXPECT_NE(std::string(refused.message()).find("HTTP"), std::string::npos);
}

}  // namespace
}  // namespace weft::test::link_handshake_test
