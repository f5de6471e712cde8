// The primitives against the vectors of their standards.
#include "base/keyed_hash.h"

#include <string>

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "base/sha256.h"

namespace weft::test::keyed_hash_test {
namespace {

std::string Hex(const std::string& bytes) {
  return absl::BytesToHexString(bytes);
}

std::string HashOf(std::string_view text, size_t cut) {
  Sha256 hash;
  hash.Update(text.substr(0, cut));
  hash.Update(text.substr(cut));
  const Sha256::Digest digest = hash.Finish();
  return Hex(std::string(digest.begin(), digest.end()));
}

// FIPS 180-4.
TEST(Sha256, MatchesTheStandardHoweverTheTextIsCut) {
  EXPECT_EQ(HashOf("", 0), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const std::string text = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(HashOf(text, cut),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  }
  EXPECT_EQ(HashOf(std::string(1'000'000, 'a'), 77),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, ACopyGoesOnByItself) {
  Sha256 first;
  first.Update("ab");
  Sha256 second = first;
  first.Update("c");
  second.Update("d");
  EXPECT_NE(first.Finish(), second.Finish());
}

// RFC 4231, cases 1, 2, 3 and 6: the last has a key of more than a block.
TEST(KeyedHash, MatchesTheVectorsOfRfc4231) {
  EXPECT_EQ(Hex(KeyedHash(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(Hex(KeyedHash("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(Hex(KeyedHash(std::string(20, '\xaa'), std::string(50, '\xdd'))),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  EXPECT_EQ(Hex(KeyedHash(std::string(131, '\xaa'),
                          "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

// RFC 5869, cases 1 and 3, the first 32 bytes of their output.
TEST(DeriveKey, MatchesTheVectorsOfRfc5869) {
  const std::string secret(22, '\x0b');
  EXPECT_EQ(Hex(DeriveKey(secret, absl::HexStringToBytes("000102030405060708090a0b0c"),
                          absl::HexStringToBytes("f0f1f2f3f4f5f6f7f8f9"))),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
  EXPECT_EQ(Hex(DeriveKey(secret, "", "")),
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d");
}

}  // namespace
}  // namespace weft::test::keyed_hash_test
