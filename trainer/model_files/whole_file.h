// A file that is written from its beginning to its end, and has its name only when all of it is on
// the disk.
//
//   WholeFile file("model.safetensors");
//   file.Write(data, bytes);
//   file.Commit();
//
// An object that goes without Commit leaves nothing. Throws as ThrowUnwritable (run_files.h).
// Thread-safety: one thread.
#ifndef WEFT_TRAINER_MODEL_FILES_WHOLE_FILE_H_
#define WEFT_TRAINER_MODEL_FILES_WHOLE_FILE_H_

#include <cstddef>
#include <filesystem>
#include <string>

#include "trainer/run_files.h"

namespace weft::trainer {

// What the option is called that says where a model is written.
inline constexpr OtherPlace kExportPlace{"--out", "--out"};

class WholeFile {
 public:
  explicit WholeFile(const std::filesystem::path& path);
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void Write(const void* data, size_t bytes);
  void Commit();

 private:
  const std::string path_;
  const std::string begun_;  // the name until then
  int fd_;
  bool committed_ = false;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_MODEL_FILES_WHOLE_FILE_H_
