// The only way to read bytes that another process wrote, and its counterpart.
//
//   WireWriter writer;
//   writer.U32(epoch); writer.Text(key);
//   ...
//   WireReader reader(bytes);
//   const uint32_t epoch = reader.U32();
//   const std::string key = reader.Text(kStoreKeyBytesMax);
//   if (!reader.Finished()) return MakeError(WEFT_CORRUPT, ...);
//
// Little endian. A read past the end, or a text longer than its bound, makes the reader bad: it then
// returns zeros and empty texts, and Finished() is false. No length that was read is ever used
// before it is compared with what is there.
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

class WireWriter {
 public:
  void U8(uint8_t value) { Integer(value, 1); }

  void U16(uint16_t value) { Integer(value, 2); }

  void U32(uint32_t value) { Integer(value, 4); }

  void U64(uint64_t value) { Integer(value, 8); }

  void I32(int32_t value) { U32(static_cast<uint32_t>(value)); }

  void I64(int64_t value) { U64(static_cast<uint64_t>(value)); }

  // The bytes alone; the reader knows how many.
  void Bytes(std::string_view bytes) { data_.append(bytes); }

  // A u32 length and the bytes.
  void Text(std::string_view text);

  const std::string& data() const { return data_; }

  std::string Take() {
    std::string taken;
    taken.swap(data_);
    return taken;
  }

 private:
  void Integer(uint64_t value, int bytes);

  std::string data_;
};

class WireReader {
 public:
  // Borrows `data`.
  explicit WireReader(std::string_view data) : data_(data) {}

  uint8_t U8() { return static_cast<uint8_t>(Integer(1)); }

  uint16_t U16() { return static_cast<uint16_t>(Integer(2)); }

  uint32_t U32() { return static_cast<uint32_t>(Integer(4)); }

  uint64_t U64() { return Integer(8); }

  int32_t I32() { return static_cast<int32_t>(U32()); }

  int64_t I64() { return static_cast<int64_t>(U64()); }

  // Exactly `bytes` bytes.
  std::string_view Bytes(size_t bytes);
  // What Text() wrote, at most `bytes_max` long.
  std::string_view Text(size_t bytes_max);

  bool ok() const { return ok_; }

  // What was read makes no sense: as if more had been asked for than there is.
  void Fail() { ok_ = false; }

  size_t left() const { return data_.size(); }

  // Every read succeeded and nothing is left over.
  bool Finished() const { return ok_ && data_.empty(); }

 private:
  uint64_t Integer(int bytes);

  std::string_view data_;
  bool ok_ = true;
};

}  // namespace weft
