// A check of options that are whole numbers.
//
//   app.add_option("--steps", steps)->check(WholeNumber(1, 1000));
//
// Thread-safety: constant after construction.
#ifndef WEFT_TRAINER_WHOLE_NUMBER_H_
#define WEFT_TRAINER_WHOLE_NUMBER_H_

#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>

#include <CLI/App.hpp>
#include <fmt/core.h>

namespace weft::trainer {

// Refuses what is no whole number of the range. CLI11's own check takes a number that is too large for its type as
// the type's largest, and one that begins with 0 as octal.
class WholeNumber : public CLI::Validator {
 public:
  WholeNumber(uint64_t least, uint64_t most) {
    description(fmt::format("{} to {}", least, most));
    func_ = [least, most](const std::string& text) -> std::string {
      uint64_t value = 0;
      const char* const end = text.data() + text.size();
      const auto [rest, error] = std::from_chars(text.data(), end, value);
      const bool digits = error != std::errc::invalid_argument && rest == end;
      if (!digits || (text.size() > 1 && text[0] == '0')) {
        return fmt::format("{} is no whole number from {} to {}", text, least, most);
      }
      if (error == std::errc() && value >= least && value <= most) return "";
      return fmt::format("{} is out of range; use {} to {}", text, least, most);
    };
  }
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_WHOLE_NUMBER_H_
