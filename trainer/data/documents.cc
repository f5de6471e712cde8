#include "trainer/data/documents.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "trainer/data/held_out.h"
#include "trainer/failure.h"

namespace weft::trainer {
namespace {

namespace fs = std::filesystem;

// What a text begins with: enough to see whether it is one.
std::string BeginningOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kTextBytesLookedAt, '\0');
  file.read(text.data(), std::streamsize(text.size()));
  if (file.bad() || (!file && !file.eof()))
    throw BadInput(
        fmt::format("tokenize: cannot read {}: {}", path.string(), std::strerror(errno)));
  text.resize(size_t(file.gcount()));
  return text;
}

void AddPassedOver(const PassedOverBy& more, PassedOverBy& all) {
  for (size_t reason = 0; reason < kReasons; reason++) {
    if (more[reason].count == 0) continue;
    if (all[reason].count == 0 || more[reason].first < all[reason].first)
      all[reason].first = more[reason].first;
    all[reason].count += more[reason].count;
  }
}

void HoldOut(Documents& documents, double part) {
  std::vector<SizedText> sizes;
  for (const Document& document : documents.list)
    sizes.push_back({document.name, document.bytes});
  const std::vector<uint64_t> held_out = BytesToValidate(sizes, part);
  for (size_t i = 0; i < held_out.size(); i++)
    documents.list[i].held_out = held_out[i];
}

}  // namespace

Documents FindDocuments(const std::vector<std::string>& files, double validation_part) {
  std::vector<FoundFile> found;
  Documents documents;
  for (const std::string& name : files) {
    FoundFiles more = FindFiles(name, "tokenize");
    AddPassedOver(more.passed_over, documents.passed_over);
    for (FoundFile& file : more.files)
      found.push_back({std::move(file.name), file.path.lexically_normal()});
  }
  std::ranges::sort(found, {}, &FoundFile::path);
  const auto same = [](const FoundFile& a, const FoundFile& b) {
    return a.path == b.path;
  };
  found.erase(std::unique(found.begin(), found.end(), same), found.end());
  for (FoundFile& file : found) {
    const std::string beginning = BeginningOf(file.path);
    std::error_code error;
    const uint64_t bytes = fs::file_size(file.path, error);
    if (beginning.empty() || error) {
      documents.empty_files++;
    } else if (!IsText(beginning)) {
      PassOver(documents.passed_over, PassedReason::kHasNul, file.name);
    } else {
      documents.bytes += bytes;
      documents.list.push_back({std::move(file.path), std::move(file.name), bytes});
    }
  }
  if (documents.list.empty()) {
    std::vector<std::string> phrases = DescribePassedOver(documents.passed_over);
    if (documents.empty_files > 0)
      phrases.push_back(fmt::format("{} empty file{}", documents.empty_files,
                                    documents.empty_files == 1 ? "" : "s"));
    throw BadInput(fmt::format("tokenize {}: found no text{}{}; name files or folders of text",
                               fmt::join(files, " "), phrases.empty() ? "" : " but ",
                               fmt::join(phrases, ", ")));
  }
  HoldOut(documents, validation_part);
  return documents;
}

}  // namespace weft::trainer
