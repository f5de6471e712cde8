// Where tokenize writes a set of tokens: the folder is made, and the name is this process's until the
// end. What one that was killed has left of that name is removed.
//
//   TokenSetPlace place("data/wiki");      // BadInput if a set has the name, or another one writes it
//   place.Stem("train")                    // "data/wiki_train"
//
// Thread-safety: one thread.
#ifndef WEFT_TRAINER_DATA_TOKEN_SET_PLACE_H_
#define WEFT_TRAINER_DATA_TOKEN_SET_PLACE_H_

#include <filesystem>
#include <string>

namespace weft::trainer {

class TokenSetPlace {
 public:
  // `out`: FOLDER/NAME.
  explicit TokenSetPlace(const std::string& out);
  ~TokenSetPlace();
  TokenSetPlace(const TokenSetPlace&) = delete;
  TokenSetPlace& operator=(const TokenSetPlace&) = delete;

  // Of the set's own file.
  const std::filesystem::path& path() const { return path_; }

  std::string Stem(const std::string& side) const;

  // The vocabulary of all sets of the folder.
  std::filesystem::path TokenizerPath() const;

  // Its name while this set is being written.
  std::filesystem::path BegunTokenizerPath() const;

  // That the names of the folder are on the disk. Throws NotWritten.
  void Sync() const;

 private:
  void RefuseUsedName() const;
  void RemoveLeftovers() const;
  void Lock();

  std::filesystem::path path_;
  std::string begun_;  // of path_, until it is there; locked
  int lock_ = -1;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_DATA_TOKEN_SET_PLACE_H_
