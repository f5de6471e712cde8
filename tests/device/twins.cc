#include "tests/device/twins.h"

#include "tests/device/twin_table.h"

namespace weft::test {
namespace {

std::vector<TwinEntry> AllTwins() {
  std::vector<TwinEntry> all;
  for (const TwinPart& part : {ReduceTwins(), OtherTwins(), OptimizerTwins()})
    all.insert(all.end(), part.entries, part.entries + part.count);
  return all;
}

}  // namespace

Twin FindTwin(const std::string& name) {
  for (const TwinEntry& entry : AllTwins()) {
    if (entry.name == name) return entry.twin;
  }
  return nullptr;
}

size_t TwinParameterBytes(const std::string& name) {
  for (const TwinEntry& entry : AllTwins()) {
    if (entry.name == name) return entry.parameter_bytes;
  }
  return 0;
}

std::string ImageOfKernel(const std::string& name) {
  for (const TwinEntry& entry : AllTwins()) {
    if (entry.name == name) return entry.image;
  }
  return "";
}

std::vector<std::string> TwinNames() {
  std::vector<std::string> names;
  for (const TwinEntry& entry : AllTwins())
    names.emplace_back(entry.name);
  return names;
}

}  // namespace weft::test
