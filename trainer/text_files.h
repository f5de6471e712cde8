// The files that --data names: which of them are read, and which are passed over and why.
//
//   TextFiles read = ReadTextFiles("notes", kTextBytesMax);
//   read.files[0].name                    // relative to notes
//   for (const std::string& line : DescribePassedOver(read.passed_over)) ...
//
// Everything below a directory is either read or counted, so that a user sees what the model does not learn. Hidden files and
// folders, folders named build or runs, linked folders (they may lead back), and files with NUL bytes are passed over.
//
// FindFiles() finds and does not read, for whoever takes the files one by one.
//
// Throws BadInput with one sentence for what is not there or cannot be read. Thread-safety: pure but for reading files.
#ifndef WEFT_TRAINER_TEXT_FILES_H_
#define WEFT_TRAINER_TEXT_FILES_H_

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace weft::trainer {

// The most text that is read in all: it is held in memory, several times for a while.
constexpr size_t kTextBytesMax = size_t{4} << 30;

struct TextFile {
  std::string name;  // relative to its source
  std::string text;
};

// Why something is not read.
enum class PassedReason {
  kHasNul,  // no text: an image, a program, UTF-16
  kOutputFolder,
  kLinkedFolder,
  kUnreadableFolder,
  kHidden,
  kNoFile,  // a socket, a FIFO, a device, a link to nothing or to itself
};
constexpr size_t kReasons = 6;

struct PassedOver {
  size_t count = 0;
  std::string first;  // of their names, in order of the alphabet
};

using PassedOverBy = std::array<PassedOver, kReasons>;  // by PassedReason

struct FoundFile {
  std::string name;  // relative to its source
  std::filesystem::path path;
};

struct FoundFiles {
  std::vector<FoundFile> files;  // in the order of their paths
  PassedOverBy passed_over;
};

struct TextFiles {
  std::vector<TextFile> files;
  size_t bytes = 0;  // of all of them
  PassedOverBy passed_over;
};

// The file that is named, or all below a directory; not yet known to be text. `whose` begins the sentence of an error: the option or
// the command that names it.
FoundFiles FindFiles(const std::filesystem::path& root, const std::string& whose = "--data");

// Whether a file that begins so is text: it has no NUL in what is looked at.
bool IsText(std::string_view beginning);
constexpr size_t kTextBytesLookedAt = 4096;

// Counts one more that is passed over.
void PassOver(PassedOverBy& passed_over, PassedReason reason, const std::string& name);

// Reads a file, or all below a directory; more than `bytes_left` of kTextBytesMax is BadInput. `endings`, if there are any, are
// those of the files that are meant; other files are neither read nor counted.
TextFiles ReadTextFiles(const std::filesystem::path& root, size_t bytes_left,
                        const std::vector<std::string>& endings = {});

// "2 files with NUL bytes (image.png and 1 more)": one phrase for each reason that something was passed over for.
std::vector<std::string> DescribePassedOver(const PassedOverBy& passed_over);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TEXT_FILES_H_
