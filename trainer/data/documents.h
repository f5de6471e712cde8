// The texts that tokenize makes tokens of.
//
//   const Documents documents = FindDocuments({"notes", "book.txt"}, 0.1);
//
// Every file of text below a folder is one, but for what ReadTextFiles passes over, too
// (text_files.h). In the order of their paths, each once; which bytes validate does not depend on
// where the folders lie (held_out.h).
//
// Throws BadInput with one sentence for what is not there, and if there is no text. Thread-safety:
// pure but for reading files.
#ifndef WEFT_TRAINER_DATA_DOCUMENTS_H_
#define WEFT_TRAINER_DATA_DOCUMENTS_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "trainer/text_files.h"

namespace weft::trainer {

struct Document {
  std::filesystem::path path;
  std::string name;  // relative to what was named
  uint64_t bytes = 0;
  uint64_t held_out = 0;  // its last bytes, which validate
};

struct Documents {
  std::vector<Document> list;
  uint64_t bytes = 0;
  size_t empty_files = 0;
  PassedOverBy passed_over;  // of all that were named
};

Documents FindDocuments(const std::vector<std::string>& files, double validation_part);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_DATA_DOCUMENTS_H_
