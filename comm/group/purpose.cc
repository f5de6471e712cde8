#include "comm/group/purpose.h"

#include <optional>

#include "base/text.h"
#include "comm/group/collective.h"
#include "comm/group/number_hash.h"

namespace weft {
namespace {

using Kind = Purpose::Kind;

// Bits of a record, from the lowest on.
constexpr int kKindBits = 6;
constexpr int kContextBits = 6;
constexpr int kSubjectBits = 20;
constexpr int kMicrobatchBits = 12;
constexpr int kStepBits = 20;
static_assert(kKindBits + kContextBits + kSubjectBits + kMicrobatchBits + kStepBits == 64);
static_assert(Purpose::kKindCount <= 1 << kKindBits);

struct Phrase {
  const char* begins = "";
  const char* subject = "";     // what its number counts; empty: there is none
  const char* whole = nullptr;  // the call that it is a part of
};

constexpr Phrase kPhrases[Purpose::kKindCount] = {
    {},
    {.begins = "to compare declarations"},
    {.begins = "to ask whether all ranks have their memory"},
    {.begins = "to ask who has data"},
    {.begins = "to gather", .subject = "unit"},
    {.begins = "to gather the updated parameters of", .subject = "bucket"},
    {.begins = "to reduce the gradients of", .subject = "bucket"},
    {.begins = "to compare the order of calls"},
    {.begins = "to add gradient norms"},
    {.begins = "to add the norms of parameters"},
    {.begins = "to find the gradient that is not finite"},
    {.begins = "to compare learning_rate and norm_max"},
    {.begins = "to load", .subject = "parameter"},
    {.begins = "to read", .subject = "parameter"},
    {.begins = "to broadcast parameters"},
    {.begins = "to compare copies of parameters"},
    {.begins = "to compare samples"},
    {.begins = "to report"},
    {.whole = "split"},
    {.whole = "group_create_from_ranks"},
    {.whole = "mem_alloc_shared"},
    {.whole = "mem_free_shared"},
    {.whole = "call"},
    {.whole = "shard_norm_sum"},
};

// Fills a word from its lowest bits on.
class Packer {
 public:
  void Add(uint64_t number, int bits) {
    word_ |= (number & ((uint64_t{1} << bits) - 1)) << used_;
    used_ += bits;
  }

  uint64_t word() const { return word_; }

 private:
  uint64_t word_ = 0;
  int used_ = 0;
};

class Unpacker {
 public:
  explicit Unpacker(uint64_t word) : word_(word) {}

  uint64_t Take(int bits) {
    const uint64_t number = word_ & ((uint64_t{1} << bits) - 1);
    word_ >>= bits;
    return number;
  }

 private:
  uint64_t word_;
};

std::string When(const Purpose& purpose) {
  if (purpose.step == 0) return "";
  if (purpose.microbatch < 0) return StrCat(" (step ", purpose.step, ")");
  return StrCat(" (step ", purpose.step, ", micro-batch ", purpose.microbatch, ")");
}

}  // namespace

uint32_t SignatureSaltOf(const Purpose& purpose) {
  NumberHash hash;
  for (const uint64_t number : {static_cast<uint64_t>(purpose.kind), purpose.context,
                                static_cast<uint64_t>(purpose.subject), purpose.round})
    hash.Add(number);
  const uint32_t salt = hash.Get32();
  return salt == 0 ? 1 : salt;
}

uint64_t PackPurpose(const Purpose& purpose) {
  Packer packer;
  packer.Add(static_cast<uint64_t>(purpose.kind), kKindBits);
  packer.Add(purpose.context, kContextBits);
  packer.Add(static_cast<uint64_t>(purpose.subject) + 1, kSubjectBits);
  packer.Add(static_cast<uint64_t>(purpose.microbatch) + 1, kMicrobatchBits);
  packer.Add(purpose.step, kStepBits);
  return packer.word();
}

Purpose UnpackPurpose(uint64_t record) {
  Unpacker unpacker(record);
  const uint64_t kind = unpacker.Take(kKindBits);
  if (kind >= Purpose::kKindCount) return {};
  Purpose purpose{.kind = static_cast<Kind>(kind)};
  purpose.context = unpacker.Take(kContextBits);
  purpose.subject = static_cast<int>(unpacker.Take(kSubjectBits)) - 1;
  purpose.microbatch = static_cast<int>(unpacker.Take(kMicrobatchBits)) - 1;
  purpose.step = unpacker.Take(kStepBits);
  return purpose;
}

bool IsRefusal(uint64_t record) {
  return UnpackPurpose(record).kind == Kind::kRefusal;
}

const char* WholeCallName(const Purpose& purpose) {
  if (purpose.kind == Kind::kRefusal && purpose.subject >= 0)
    return OpKindName(static_cast<OpKind>(purpose.subject));
  return kPhrases[static_cast<size_t>(purpose.kind)].whole;
}

std::string PurposeText(const Purpose& purpose, const PurposeNames* names) {
  const Phrase& phrase = kPhrases[static_cast<size_t>(purpose.kind)];
  if (*phrase.begins == '\0') return "";
  std::string text = phrase.begins;
  std::optional<std::string> name;
  if (names != nullptr) name = names->SubjectOf(purpose);
  if (name.has_value()) {
    if (!name->empty()) text += StrCat(" ", *name);
  } else {
    const bool counted = *phrase.subject != '\0' && purpose.subject >= 0;
    if (counted) text += StrCat(" ", phrase.subject, " ", purpose.subject);
    if (purpose.context > 0) text += StrCat(" of shard context ", purpose.context);
  }
  return text + When(purpose);
}

}  // namespace weft
