#include "comm/rendezvous/keyed_hash.h"

#include <memory>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include "absl/strings/escaping.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

absl::Status CryptoError(const char* what) {
  return MakeError(WEFT_SYSTEM_ERROR, StrCat("libcrypto could not compute ", what,
                                             "; check the OpenSSL installation"));
}

unsigned char* Writable(std::string& text) {
  return reinterpret_cast<unsigned char*>(text.data());
}

OSSL_PARAM Octets(const char* name, std::string_view bytes) {
  return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(bytes.data()), bytes.size());
}

}  // namespace

absl::StatusOr<std::string> KeyedHash(std::string_view key, std::string_view data) {
  std::string out(kKeyBytes, '\0');
  unsigned int size = 0;
  // HMAC() takes no NULL key, not even an empty one.
  const char* const key_data = key.empty() ? "" : key.data();
  const auto* const bytes = reinterpret_cast<const unsigned char*>(data.data());
  if (HMAC(EVP_sha256(), key_data, static_cast<int>(key.size()), bytes, data.size(), Writable(out),
           &size) == nullptr ||
      size != kKeyBytes) {
    return CryptoError("HMAC-SHA256");
  }
  return out;
}

absl::StatusOr<std::string> DeriveKey(std::string_view secret, std::string_view salt,
                                      std::string_view info) {
  std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr),
                                                        EVP_KDF_free);
  if (!kdf) return CryptoError("HKDF");
  std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(EVP_KDF_CTX_new(kdf.get()),
                                                                    EVP_KDF_CTX_free);
  if (!context) return CryptoError("HKDF");
  // HKDF wants a key; without a secret there is nothing to protect and a constant does.
  const std::string_view key = secret.empty() ? std::string_view("no secret") : secret;
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      Octets(OSSL_KDF_PARAM_KEY, key), Octets(OSSL_KDF_PARAM_SALT, salt),
      Octets(OSSL_KDF_PARAM_INFO, info), OSSL_PARAM_construct_end()};
  std::string out(kKeyBytes, '\0');
  if (EVP_KDF_derive(context.get(), Writable(out), out.size(), parameters) <= 0) {
    return CryptoError("HKDF-SHA256");
  }
  return out;
}

bool SameProof(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

absl::StatusOr<std::string> HashName(std::string_view key, std::string_view data, size_t bytes) {
  WEFT_ASSIGN_OR_RETURN(const std::string hash, KeyedHash(key, data));
  return absl::BytesToHexString(absl::string_view(hash.data(), bytes));
}

void FreeHashesOfThread() {
  OPENSSL_thread_stop();
}

}  // namespace weft
