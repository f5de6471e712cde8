#include "shard/step/purposes.h"

#include "base/text.h"
#include "comm/group/number_hash.h"

namespace weft {
namespace {

// "unit head"; "units norm, head"; of more than three "units blocks.0, blocks.1, blocks.2 and 4 more".
std::string UnitList(const Registry& registry, const std::vector<int>& units) {
  constexpr size_t kListed = 3;
  std::string text = units.size() == 1 ? "unit " : "units ";
  for (size_t i = 0; i < units.size() && i < kListed; ++i) {
    text += StrCat(i == 0 ? "" : ", ", registry.units()[static_cast<size_t>(units[i])].name);
  }
  if (units.size() > kListed) text += StrCat(" and ", units.size() - kListed, " more");
  return text;
}

}  // namespace

CallPurpose Purposes::Make(Purpose::Kind kind, int subject, uint64_t round) const {
  const Purpose purpose{.kind = kind,
                        .context = context_,
                        .subject = subject,
                        .round = round,
                        .step = step_,
                        .microbatch = microbatch_};
  return {
      .signature_salt = SignatureSaltOf(purpose), .record = PackPurpose(purpose), .names = this};
}

CallPurpose Purposes::Of(Purpose::Kind kind, int subject) const {
  return Make(kind, subject, 0);
}

CallPurpose Purposes::InStep(Purpose::Kind kind, int subject) const {
  NumberHash round;
  round.Add(step_);
  round.Add(reducing_);
  return Make(kind, subject, round.Get());
}

std::optional<std::string> Purposes::SubjectOf(const Purpose& purpose) const {
  const Purpose own{.kind = Purpose::Kind::kReport, .context = context_};
  if (purpose.context != UnpackPurpose(PackPurpose(own)).context) return std::nullopt;
  const auto index = static_cast<size_t>(purpose.subject);
  switch (purpose.kind) {
    case Purpose::Kind::kGather:
      if (index >= registry_.units().size()) return std::nullopt;
      return StrCat("unit ", registry_.units()[index].name);
    case Purpose::Kind::kGatherUpdated:
    case Purpose::Kind::kReduce:
      if (layout_ == nullptr || index >= layout_->buckets.size()) return std::nullopt;
      return UnitList(registry_, layout_->buckets[index].units);
    case Purpose::Kind::kLoad:
    case Purpose::Kind::kRead:
      if (index >= registry_.params().size()) return std::nullopt;
      return StrCat("parameter ", registry_.params()[index].name);
    default:
      return "";
  }
}

}  // namespace weft
