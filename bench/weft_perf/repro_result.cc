// Results of different runs of the program are compared after the runs have ended, so what is kept of one is its hash, and it
// comes as a line through a pipe. VisitMembers is the one list of a result's members: what is missing there is lost on the way.
// Beginnings are compared as well, because elements do not depend on how many follow.
#include <algorithm>
#include <memory>
#include <tuple>

#include <nlohmann/json.hpp>
#include <openssl/evp.h>

#include "bench/weft_perf/outcome.h"
#include "bench/weft_perf/repro.h"

namespace weft::perf {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kLineStart[] = "repro ";
// Enough to see what the faulty ones have in common; JSON has all.
constexpr size_t kFaultLinesMax = 20;

// Each member of a result under its name in lines and in JSON.
template <typename Result, typename Visit>
void VisitMembers(Result& r, const Visit& visit) {
  visit("operation", r.operation);
  visit("type", r.type);
  visit("redop", r.reduction);
  visit("root", r.root);
  visit("ranks", r.ranks);
  visit("size", r.bytes);
  visit("count", r.count);
  visit("ranks_are", r.ranks_are);
  visit("nodes", r.nodes);
  visit("transport", r.transport);
  visit("isa", r.isa);
  visit("algorithm", r.algorithm);
  visit("memory", r.memory);
  visit("in_place", r.in_place);
  visit("blocking", r.blocking);
  visit("hash", r.hash);
  visit("prefix_hash", r.prefix_hash);
  visit("ranks_agree", r.ranks_agree);
  visit("stray_bytes", r.stray_bytes);
}

Json ToJson(const ReproResult& result) {
  Json json;
  VisitMembers(result, [&](const char* name, const auto& member) { json[name] = member; });
  return json;
}

Json ToJson(const ReproSkip& skip) {
  return {{"skipped", skip.algorithm}, {"calls", skip.calls}, {"why", skip.why}};
}

// The library's sentences may hold names that are not UTF-8.
std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string DiffersLine(const std::string& what, const std::string& hash,
                        const std::vector<const ReproResult*>& results) {
  const ReproResult& first = *results.front();
  return Printf("# differs: %s %zu bytes %s %s: %s in %zu result%s, first %s\n", what.c_str(),
                first.bytes, first.type.c_str(), first.reduction.c_str(), hash.c_str(),
                results.size(), results.size() == 1 ? "" : "s", first.Way().c_str());
}

}  // namespace

std::string HashText(std::span<const std::span<const unsigned char>> runs) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  bool good = context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  for (const std::span<const unsigned char>& run : runs) {
    good = good && EVP_DigestUpdate(context.get(), run.data(), run.size()) == 1;
  }
  unsigned char digest[EVP_MAX_MD_SIZE] = {};
  if (!good || EVP_DigestFinal_ex(context.get(), digest, nullptr) != 1) return "no-hash";
  std::string text;
  for (size_t i = 0; i < 8; ++i)
    text += Printf("%02x", digest[i]);
  return text;
}

std::string HashOfRanks(const std::vector<std::string>& of_ranks, bool same, bool* agree) {
  const auto first = std::find_if(of_ranks.begin(), of_ranks.end(),
                                  [](const std::string& hash) { return !hash.empty(); });
  if (first == of_ranks.end()) return HashText({});
  const bool equal = std::count(of_ranks.begin(), of_ranks.end(), *first) == std::ssize(of_ranks);
  if (same && equal) return *first;
  if (same) *agree = false;
  std::vector<std::span<const unsigned char>> runs;
  runs.reserve(of_ranks.size());
  for (const std::string& hash : of_ranks)
    runs.emplace_back(reinterpret_cast<const unsigned char*>(hash.data()), hash.size());
  return HashText(runs);
}

std::string ReproResult::Way() const {
  const std::string way =
      Printf("%s %s %s %s %s %s", ranks_are.c_str(), isa.c_str(), algorithm.c_str(), memory.c_str(),
             in_place ? "in-place" : "out-of-place", blocking ? "blocking" : "asynchronous");
  return nodes == "1" ? way : way + " nodes " + nodes + " over " + transport;
}

std::string ReproLine(const ReproResult& result) {
  return kLineStart + ToJson(result).dump() + "\n";
}

std::string ReproLine(const ReproSkip& skip) {
  return kLineStart + Text(ToJson(skip)) + "\n";
}

bool ReproSummary::AddLine(const std::string& line) {
  if (line.rfind(kLineStart, 0) != 0) return false;
  const Json json = Json::parse(line.substr(sizeof(kLineStart) - 1), nullptr, false);
  if (!json.is_object()) return false;
  if (json.contains("skipped")) {
    Add({json.value("skipped", ""), json.value("calls", size_t{0}), json.value("why", "")});
    return true;
  }
  ReproResult result;
  VisitMembers(result, [&](const char* name, auto& member) { member = json.value(name, member); });
  Add(std::move(result));
  return true;
}

void ReproSummary::Add(ReproResult result) {
  results_.push_back(std::move(result));
}

void ReproSummary::Add(const ReproSkip& skip) {
  for (ReproSkip& known : skips_) {
    if (known.algorithm != skip.algorithm) continue;
    known.calls += skip.calls;
    return;
  }
  skips_.push_back(skip);
}

std::vector<ReproSummary::Group> ReproSummary::Groups(bool prefixes) const {
  using Key = std::tuple<std::string, std::string, std::string, int, size_t, size_t>;
  std::map<Key, size_t> place;
  std::vector<Group> groups;  // in the order in which they were first seen
  for (const ReproResult& r : results_) {
    const Key key{r.operation, r.type, r.reduction, r.root, r.ranks, prefixes ? 0 : r.bytes};
    // A size that is rounded to nothing has no beginning.
    if (prefixes && r.bytes == 0) continue;
    const auto [found, is_new] = place.emplace(key, groups.size());
    if (is_new) groups.push_back({&r, 0, {}});
    Group& group = groups[found->second];
    ++group.results;
    group.by_hash[prefixes ? r.prefix_hash : r.hash].push_back(&r);
  }
  return groups;
}

size_t ReproSummary::distinct() const {
  size_t most = 0;
  for (const bool prefixes : {false, true}) {
    for (const Group& group : Groups(prefixes))
      most = std::max(most, group.by_hash.size());
  }
  return most;
}

bool ReproSummary::ok() const {
  const auto bad = [](const ReproResult& r) {
    return !r.ranks_agree || r.stray_bytes > 0;
  };
  return distinct() <= 1 && std::none_of(results_.begin(), results_.end(), bad);
}

std::string ReproSummary::JsonText() const {
  Json json;
  json["results"] = Json::array();
  for (const ReproResult& result : results_)
    json["results"].push_back(ToJson(result));
  json["skipped"] = Json::array();
  for (const ReproSkip& skip : skips_)
    json["skipped"].push_back(ToJson(skip));
  json["distinct_hashes"] = distinct();
  json["okay"] = ok() ? "true" : "false";
  return perf::Text(json);
}

std::string ReproSummary::FaultLines() const {
  std::string text;
  for (const bool prefixes : {false, true}) {
    for (const Group& group : Groups(prefixes)) {
      if (group.by_hash.size() < 2) continue;
      for (const auto& [hash, results] : group.by_hash) {
        text += DiffersLine(prefixes ? "beginning of" : "whole of", hash, results);
      }
    }
  }
  size_t faulty = 0;
  for (const ReproResult& r : results_) {
    if (r.ranks_agree && r.stray_bytes == 0) continue;
    if (++faulty > kFaultLinesMax) continue;
    text += Printf("# %s: %zu bytes %s %s: %s\n",
                   r.ranks_agree ? "writes beside the buffers" : "ranks differ", r.bytes,
                   r.type.c_str(), r.reduction.c_str(), r.Way().c_str());
  }
  if (faulty > kFaultLinesMax) text += Printf("# and %zu more\n", faulty - kFaultLinesMax);
  return text;
}

std::string ReproSummary::Text() const {
  std::string text =
      Printf("#\n# %10s  %12s  %8s  %6s  %6s  %16s  %16s  %7s  %8s\n", "size", "count", "type",
             "redop", "root", "hash", "of the beginning", "results", "distinct");
  for (const Group& group : Groups(false)) {
    const ReproResult& r = *group.first;
    text += Printf("%12zu  %12zu  %8s  %6s  %6d  %16s  %16s  %7zu  %8zu\n", r.bytes, r.count,
                   r.type.c_str(), r.reduction.c_str(), r.root, r.hash.c_str(),
                   r.prefix_hash.c_str(), group.results, group.by_hash.size());
  }
  text += FaultLines();
  for (const ReproSkip& skip : skips_) {
    text += Printf("# Skipped: algorithm %s, %zu calls: %s\n", skip.algorithm.c_str(), skip.calls,
                   skip.why.c_str());
  }
  text += Printf(
      "# Reproducibility: %zu results, %zu distinct hashes per (operation,type,op,size,ranks): "
      "%s\n",
      results_.size(), distinct(), ok() ? "OK" : "FAILED");
  return text;
}

}  // namespace weft::perf
