#include "comm/group/call_identity.h"

#include <string_view>

#include "comm/group/number_hash.h"
#include "comm/kernels/dtype.h"

namespace weft {
namespace {

constexpr uint32_t kInLine = uint32_t{1} << 31;
constexpr uint32_t kExact = uint32_t{1} << 30;  // in line, and the call itself

constexpr uint32_t kCountBits = 6;
constexpr uint32_t kRootBits = 6;
constexpr uint32_t kAlgorithmBits = 3;
constexpr uint32_t kOpBits = 4;
constexpr uint32_t kDtypeBits = 4;
constexpr uint32_t kKindBits = 5;
constexpr uint32_t kFastBits = 1;
static_assert(kCountBits + kRootBits + kFastBits + kAlgorithmBits + kOpBits + kDtypeBits +
                  kKindBits <=
              30);
static_assert(kOpKindCount <= 1 << kKindBits && kDtypeRows <= 1 << kDtypeBits &&
              kOpRows <= 1 << kOpBits && kNamedProtocolCount <= 1 << kAlgorithmBits);

// FNV-1a (Fowler, Noll, Vo).
uint32_t NameHash(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

// Of one name no two numbers of values have the same: the factor is odd.
uint32_t ReductionHash(const CustomOp& op) {
  return NameHash(op.name) + static_cast<uint32_t>(op.element_count - 1) * 0x9e3779b9U;
}

bool FitsExactly(const CallIdentity& call) {
  return call.layout == 0 && call.name == 0 && call.signature_salt == 0 &&
         call.count < 1 << kCountBits && call.root >= 0 && call.root < 1 << kRootBits;
}

}  // namespace

CallIdentity IdentityOf(const Collective& call) {
  const bool named = call.op == kOpUser && call.custom != nullptr;
  const uint8_t fast = call.numerics == WEFT_NUMERICS_FAST ? CallIdentity::kFast : 0;
  return {.count = TraitsOf(call.kind).local_counts ? 0 : call.count * ValuesPerElement(call),
          .layout = call.layout == nullptr ? 0 : call.layout->hash,
          .name = named ? ReductionHash(*call.custom) : 0,
          .signature_salt = call.purpose.signature_salt,
          .root = call.root,
          .kind = static_cast<uint8_t>(call.kind),
          .dtype = static_cast<uint8_t>(DtypeRow(call.dtype)),
          .op = static_cast<uint8_t>(OpRow(call.op)),
          .algorithm = static_cast<uint8_t>(static_cast<uint8_t>(call.algorithm) | fast)};
}

uint32_t SignatureOf(const CallIdentity& call, bool in_line) {
  if (in_line && FitsExactly(call)) {
    auto exact = static_cast<uint32_t>(call.count);
    exact = exact << kRootBits | static_cast<uint32_t>(call.root);
    exact = exact << kFastBits | ((call.algorithm & CallIdentity::kFast) != 0 ? 1 : 0);
    exact = exact << kAlgorithmBits | (call.algorithm & ~CallIdentity::kFast);
    exact = exact << kOpBits | call.op;
    exact = exact << kDtypeBits | call.dtype;
    exact = exact << kKindBits | call.kind;
    return kInLine | kExact | exact;
  }
  NumberHash hash;
  hash.Add(call.count);
  hash.Add(call.layout);
  hash.Add(uint64_t{call.name} << 32 | call.signature_salt);
  hash.Add(static_cast<uint64_t>(static_cast<uint32_t>(call.root)) << 32 |
           static_cast<uint64_t>(call.kind) << 24 | static_cast<uint64_t>(call.dtype) << 16 |
           static_cast<uint64_t>(call.op) << 8 | call.algorithm);
  return in_line ? kInLine | hash.Get32() >> 2 : hash.Get32() >> 1;
}

}  // namespace weft
