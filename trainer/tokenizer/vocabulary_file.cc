#include "trainer/tokenizer/vocabulary_file.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <system_error>
#include <vector>

#include <fmt/core.h>

#include "trainer/failure.h"

namespace weft::trainer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Looks at every value before it is kept.
class JsonLimits {
 public:
  explicit JsonLimits(const fs::path& path) : path_(path) {}

  bool operator()(int depth, Json::parse_event_t event, const Json& parsed) {
    if (depth > int(kJsonDepthMax))
      throw BadInput(fmt::format("{}: lists in lists, more than {} deep, are no vocabulary",
                                 path_.string(), kJsonDepthMax));
    if (++values_ > kJsonValuesMax)
      throw BadInput(
          fmt::format("{}: more than {} values are no vocabulary", path_.string(), kJsonValuesMax));
    switch (event) {
      case Json::parse_event_t::object_start:
        keys_.push_back(0);
        break;
      case Json::parse_event_t::key:
        keys_.back()++;
        last_key_ = parsed.get_ref<const std::string&>();
        break;
      case Json::parse_event_t::object_end:
        if (parsed.size() != keys_.back())
          throw BadInput(fmt::format("{}: the object that ends with \"{}\" has a key twice",
                                     path_.string(), last_key_));
        keys_.pop_back();
        break;
      default:
        break;
    }
    return true;
  }

 private:
  const fs::path& path_;
  size_t values_ = 0;
  std::vector<size_t> keys_;  // of the objects that are open
  std::string last_key_;
};

}  // namespace

std::string ReadVocabularyFile(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found)
    throw BadInput(fmt::format("{}: there is no such file", path.string()));
  // A FIFO would be waited for, and a device may have no end.
  if (!fs::is_regular_file(status))
    throw BadInput(fmt::format("{}: this is no file of a vocabulary", path.string()));
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::vector<char> buffer(1 << 16);
  while (file) {
    file.read(buffer.data(), std::streamsize(buffer.size()));
    text.append(buffer.data(), size_t(file.gcount()));
    if (text.size() > kVocabularyBytesMax)
      throw BadInput(fmt::format("{}: more than {} bytes are no vocabulary", path.string(),
                                 kVocabularyBytesMax));
  }
  if (!file.eof())
    throw BadInput(fmt::format("cannot read {}: {}", path.string(), std::strerror(errno)));
  return text;
}

Json ReadVocabularyJson(const fs::path& path) {
  const std::string text = ReadVocabularyFile(path);
  try {
    JsonLimits limits(path);
    return Json::parse(text, [&](int depth, Json::parse_event_t event, Json& parsed) {
      return limits(depth, event, parsed);
    });
  } catch (const Json::exception& error) {
    throw BadInput(fmt::format("{}: this is no JSON: {}", path.string(), error.what()));
  }
}

Token TokenOf(const Json& number, const fs::path& path, const std::string& what) {
  if (!number.is_number_unsigned() || number.get<uint64_t>() >= std::numeric_limits<Token>::max()) {
    const std::string found = number.dump(-1, ' ', false, Json::error_handler_t::replace);
    throw BadInput(fmt::format("{}: {} is {} and not the number of a token", path.string(), what,
                               found.substr(0, 60)));
  }
  return number.get<Token>();
}

void WriteVocabularyFile(const fs::path& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), std::streamsize(text.size()));
  file.close();
  if (!file)
    throw NotWritten(fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
}

void WriteVocabularyJson(const fs::path& path, const nlohmann::ordered_json& json) {
  std::string text;
  try {
    text = json.dump(1, '\t');
  } catch (const nlohmann::ordered_json::type_error&) {
    throw BadInput(
        fmt::format("{}: a special token is no UTF-8, and JSON has no other text", path.string()));
  }
  WriteVocabularyFile(path, text);
}

}  // namespace weft::trainer
