#include "comm/kernels/select_isa.h"

#include "base/options.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {

absl::StatusOr<Isa> ParseIsa(std::string_view name, Isa best) {
  if (name.empty()) return best;
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (name != IsaName(isa)) continue;
    if (isa <= best) return isa;
    return MakeError(
        WEFT_UNSUPPORTED,
        StrCat("WEFT_ISA asks for ", name, ", but the best that this CPU and operating ",
               "system have is ", IsaName(best), "; unset WEFT_ISA or set it to ", IsaName(best)));
  }
  return MakeError(
      WEFT_INVALID_ARGUMENT,
      StrCat("WEFT_ISA is \"", name, "\", which is no instruction set that weft knows; ",
             "set it to scalar, avx2 or avx512, or unset it"));
}

absl::StatusOr<Isa> SelectIsa() {
  return ParseIsa(GetOptions().isa, BestIsa());
}

}  // namespace weft
