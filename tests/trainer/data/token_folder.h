// A folder for files of tokens, gone afterwards, and what tests do in it.
#ifndef WEFT_TESTS_TRAINER_DATA_TOKEN_FOLDER_H_
#define WEFT_TESTS_TRAINER_DATA_TOKEN_FOLDER_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trainer/data/token_file_writer.h"
#include "trainer/data/token_format.h"
#include "trainer/failure.h"

namespace weft::trainer {

class TokenFolder : public testing::Test {
 protected:
  TokenFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "weft_tokens_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }

  ~TokenFolder() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  std::string Write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return Path(name);
  }

  // A file of tokens, whole.
  std::string WriteTokens(const std::string& name, const std::vector<Token>& tokens,
                          const TokenFormat& format = kGpt2Tokens) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    TokenFileWriter writer(Path(name), format);
    writer.Write(tokens);
    writer.Close();
    writer.Publish();
    return Path(name);
  }

  // One whose tokens are all 0, and take no room on the disk.
  std::string WriteZeros(const std::string& name, uint32_t count, const TokenFormat& format) const {
    std::string path = Write(name, Header({format.magic, format.version, count}));
    std::filesystem::resize_file(path, kTokenHeaderBytes + count * format.token_bytes);
    return path;
  }

  static std::string Header(std::vector<uint32_t> words) {
    words.resize(kTokenHeaderWords);
    return {reinterpret_cast<const char*>(words.data()), kTokenHeaderBytes};
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  // What is refused, without the folder's name.
  template <typename Error = BadInput>
  std::string Refusal(const std::function<void()>& call) const {
    try {
      call();
    } catch (const Error& error) {
      std::string sentence = error.what();
      const std::string prefix = folder_.string() + "/";
      for (size_t at = 0; (at = sentence.find(prefix)) != std::string::npos;)
        sentence.erase(at, prefix.size());
      return sentence;
    }
    return "taken";
  }

  std::filesystem::path folder_;
};

// "VmRSS" or "RssFile" of this process, in bytes.
inline size_t MemoryOf(const std::string& key) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with(key + ":")) return std::stoull(line.substr(key.size() + 1)) << 10;
  }
  ADD_FAILURE() << "no " << key;
  return 0;
}

}  // namespace weft::trainer

#endif  // WEFT_TESTS_TRAINER_DATA_TOKEN_FOLDER_H_
