// Writing what a run leaves in its directory, and asking whether it was written.
//
//   MakeRunDirectory("runs/a");
//   WriteRunFile("runs/a", "sample.txt", text);     // whole and on the disk, or an exception
//
// Thread-safety: pure but for writing files.
#ifndef WEFT_TRAINER_RUN_FILES_H_
#define WEFT_TRAINER_RUN_FILES_H_

#include <string>
#include <string_view>

namespace weft::trainer {

// The options that choose another place, for the sentence about one that will not do.
struct OtherPlace {
  const char* when_full;
  const char* when_refused;
};

inline constexpr OtherPlace kRunPlace{"--run-dir", "--run-dir or --name"};

// With its parents. Throws as ThrowUnwritable.
void MakeRunDirectory(const std::string& directory, const OtherPlace& other = kRunPlace);

// Writes a whole file, or leaves what was there. Throws as ThrowUnwritable.
void WriteRunFile(const std::string& directory, const std::string& name, const std::string& text,
                  const OtherPlace& other = kRunPlace);

// NotWritten if there is no room or the disk fails, which later may be otherwise; BadInput for a path that will not do.
[[noreturn]] void ThrowUnwritable(const std::string& path, int error,
                                  const OtherPlace& other = kRunPlace);

// Writes `text`, of which what could not be written is left. Returns 0 or the errno of what stopped
// it.
int WriteAll(int fd, std::string_view& text);

// 0 or an errno; a device that has no disk needs no syncing.
int SyncFile(int fd);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_RUN_FILES_H_
