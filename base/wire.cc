#include "base/wire.h"

#include "base/check.h"

namespace weft {

void WireWriter::Integer(uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i)
    data_.push_back(static_cast<char>(value >> (8 * i)));
}

void WireWriter::Text(std::string_view text) {
  WEFT_CHECK(text.size() <= UINT32_MAX);
  U32(static_cast<uint32_t>(text.size()));
  Bytes(text);
}

uint64_t WireReader::Integer(int bytes) {
  const std::string_view part = Bytes(static_cast<size_t>(bytes));
  uint64_t value = 0;
  for (size_t i = 0; i < part.size(); ++i) {
    value |= uint64_t{static_cast<uint8_t>(part[i])} << (8 * i);
  }
  return value;
}

std::string_view WireReader::Bytes(size_t bytes) {
  if (!ok_ || bytes > data_.size()) {
    ok_ = false;
    return {};
  }
  const std::string_view part = data_.substr(0, bytes);
  data_.remove_prefix(bytes);
  return part;
}

std::string_view WireReader::Text(size_t bytes_max) {
  const uint32_t bytes = U32();
  if (bytes > bytes_max) ok_ = false;
  return Bytes(bytes);
}

}  // namespace weft
