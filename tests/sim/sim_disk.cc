#include "tests/sim/sim_disk.h"

#include <algorithm>
#include <random>
#include <unordered_set>
#include <utility>

#include "base/text.h"

namespace weft::test {
namespace {

constexpr size_t kBlockBytes = 512;
// Of a file with more unsynced writes than these, some are taken by themselves.
constexpr size_t kWritesMax = 16;

// Parts of what was written to a file and not synced. The first two are what they are for a name: not there, there.
enum FilePart : size_t { kNothing, kEverything, kZeros, kRandomBlocks, kOfOneWrite };

// What is done with one write, after kOfOneWrite.
enum WritePart : size_t { kUpToItsMiddle, kUpToItsEnd, kWithoutIt, kItAlone, kWriteParts };

// Something of which a loss of power keeps one of several: a change of a name, or a part of a file.
struct Choice {
  const NameChange* change = nullptr;
  const DiskNode* file = nullptr;
  std::string name;
  size_t options = 2;
};

using Picks = std::vector<size_t>;

size_t WritesTried(const DiskNode& file) {
  return std::min(file.write_ends.size(), kWritesMax);
}

// `option` of the file's content.
std::string PartOf(const DiskNode& file, size_t option, std::mt19937_64* random) {
  std::string bytes = file.bytes;
  const size_t from = file.bytes_synced;
  const auto zero = [&bytes](size_t begin, size_t end) {
    std::fill(bytes.begin() + static_cast<ptrdiff_t>(begin),
              bytes.begin() + static_cast<ptrdiff_t>(end), '\0');
  };
  if (option == kEverything) return bytes;
  if (option == kNothing) return bytes.substr(0, from);
  if (option == kZeros) {
    zero(from, bytes.size());
    return bytes;
  }
  if (option == kRandomBlocks) {
    bytes.resize(from + (*random)() % (bytes.size() - from + 1));
    for (size_t begin = from; begin < bytes.size();) {
      const size_t end = std::min(bytes.size(), (begin / kBlockBytes + 1) * kBlockBytes);
      const uint64_t kind = (*random)() % 4;
      if (kind == 0) zero(begin, end);
      // What another file once had there.
      if (kind == 1)
        for (size_t i = begin; i < end; ++i)
          bytes[i] = static_cast<char>((*random)());
      begin = end;
    }
    return bytes;
  }
  const size_t tried = (option - kOfOneWrite) / kWriteParts;
  const size_t write = tried * file.write_ends.size() / WritesTried(file);
  const size_t begin = write == 0 ? from : file.write_ends[write - 1];
  const size_t end = file.write_ends[write];
  switch (static_cast<WritePart>((option - kOfOneWrite) % kWriteParts)) {
    case kUpToItsMiddle:
      return bytes.substr(0, begin + (end - begin) / 2);
    case kUpToItsEnd:
      return bytes.substr(0, end);
    case kWithoutIt:
      zero(begin, end);
      return bytes;
    case kItAlone:
    default:
      zero(from, begin);
      zero(end, bytes.size());
      return bytes;
  }
}

// Everything below a directory of which a loss of power may keep this or that.
void Gather(const DiskNode& directory, std::unordered_set<const DiskNode*>* seen,
            std::vector<Choice>* choices) {
  const auto look_at = [seen, choices](const std::string& name, const DiskNode& node) {
    if (!seen->insert(&node).second) return;
    if (node.is_directory) {
      Gather(node, seen, choices);
    } else if (node.bytes.size() > node.bytes_synced) {
      choices->push_back(
          {.file = &node, .name = name, .options = kOfOneWrite + kWriteParts * WritesTried(node)});
    }
  };
  for (const auto& [name, node] : directory.names_synced)
    look_at(name, *node);
  for (const NameChange& change : directory.changes) {
    if (!change.synced) choices->push_back({.change = &change, .name = change.name});
    if (change.made) look_at(change.name, *change.node);
  }
}

class CrashStates {
 public:
  CrashStates(
      const DiskNode& root, size_t states_max, uint64_t seed,
      const std::function<void(std::shared_ptr<DiskNode> left, const std::string& what)>& look)
      : root_(root), states_max_(states_max), random_(seed), look_(look) {
    std::unordered_set<const DiskNode*> seen;
    Gather(root, &seen, &choices_);
  }

  size_t VisitAll() {
    size_t all = 1;
    for (const Choice& choice : choices_)
      all = std::min(all * choice.options, states_max_ + 1);
    if (all <= states_max_) {
      VisitProduct();
    } else {
      VisitExtremes();
      while (made_ < states_max_)
        Visit(RandomPicks());
    }
    return looked_at_;
  }

 private:
  void VisitProduct() {
    Picks picks(choices_.size(), kNothing);
    for (;;) {
      Visit(picks);
      size_t i = 0;
      while (i < picks.size() && ++picks[i] == choices_[i].options)
        picks[i++] = 0;
      if (i == picks.size()) return;
    }
  }

  void VisitExtremes() {
    const Picks nothing(choices_.size(), kNothing);
    const Picks everything(choices_.size(), kEverything);
    Visit(nothing);
    Visit(everything);
    for (size_t i = 0; i < choices_.size(); ++i) {
      for (size_t option = 0; option < choices_[i].options; ++option) {
        Picks one = everything;
        one[i] = option;
        Visit(one);
        one = nothing;
        one[i] = option;
        Visit(one);
      }
    }
  }

  Picks RandomPicks() {
    // Few kept, half, and most: of many things half would always be kept otherwise.
    const uint64_t kept_of_16 = std::vector<uint64_t>{2, 8, 14}[random_() % 3];
    Picks picks;
    for (const Choice& choice : choices_) {
      const bool kept = random_() % 16 < kept_of_16;
      const bool in_part = choice.file != nullptr && random_() % 2 == 0;
      picks.push_back(in_part ? random_() % choice.options : static_cast<size_t>(kept));
    }
    return picks;
  }

  void Visit(const Picks& picks) {
    if (made_ == states_max_) return;
    ++made_;
    parts_.clear();
    for (size_t i = 0; i < choices_.size(); ++i) {
      const Choice& choice = choices_[i];
      if (choice.change != nullptr) kept_[choice.change] = picks[i] != kNothing;
      if (choice.file != nullptr) parts_[choice.file] = picks[i];
    }
    std::string all;
    std::shared_ptr<DiskNode> left = Left(root_, &all);
    if (!known_.insert(std::hash<std::string>()(all)).second) return;
    ++looked_at_;
    look_(std::move(left), Describe(picks));
  }

  // What is left of `node`; `all` gets a text that is the same for the same content.
  std::shared_ptr<DiskNode> Left(const DiskNode& node, std::string* all) {
    auto left = std::make_shared<DiskNode>();
    left->is_directory = node.is_directory;
    if (!node.is_directory) {
      const auto part = parts_.find(&node);
      left->bytes = part == parts_.end() ? node.bytes : PartOf(node, part->second, &random_);
      left->bytes_synced = left->bytes.size();
      all->append(StrCat("file of ", left->bytes.size(), ":", left->bytes));
      return left;
    }
    DiskNames names = node.names_synced;
    for (const NameChange& change : node.changes)
      if (change.synced || kept_[&change]) change.ApplyTo(&names);
    all->append(StrCat("directory of ", names.size(), ":"));
    for (const auto& [name, child] : names) {
      all->append(StrCat(name, "/"));
      left->names[name] = Left(*child, all);
    }
    left->names_synced = left->names;
    return left;
  }

  std::string Describe(const Picks& picks) const {
    std::string what = "after a loss of power that kept";
    for (size_t i = 0; i < choices_.size(); ++i) {
      const Choice& choice = choices_[i];
      if (picks[i] == kNothing) continue;
      if (choice.change != nullptr)
        what.append(StrCat(" ", choice.change->made ? "+" : "-", choice.name));
      if (choice.file != nullptr)
        what.append(picks[i] == kEverything ? StrCat(" bytes of ", choice.name)
                                            : StrCat(" part ", picks[i], " of ", choice.name));
    }
    return what;
  }

  const DiskNode& root_;
  const size_t states_max_;
  std::mt19937_64 random_;
  const std::function<void(std::shared_ptr<DiskNode> left, const std::string& what)>& look_;
  std::vector<Choice> choices_;
  std::map<const NameChange*, bool> kept_;
  std::map<const DiskNode*, size_t> parts_;
  std::unordered_set<size_t> known_;
  size_t made_ = 0;
  size_t looked_at_ = 0;
};

std::shared_ptr<DiskNode> CopyNode(const DiskNode& node,
                                   std::map<const DiskNode*, std::shared_ptr<DiskNode>>* copies) {
  std::shared_ptr<DiskNode>& known = (*copies)[&node];
  if (known != nullptr) return known;
  known = std::make_shared<DiskNode>(node);
  // A std::map does not move what it holds when it grows.
  for (auto& [name, child] : known->names)
    child = CopyNode(*child, copies);
  for (auto& [name, child] : known->names_synced)
    child = CopyNode(*child, copies);
  for (NameChange& change : known->changes)
    change.node = CopyNode(*change.node, copies);
  return known;
}

}  // namespace

void NameChange::ApplyTo(DiskNames* names) const {
  if (!made) {
    const auto place = names->find(name);
    if (place != names->end() && place->second == node) names->erase(place);
    return;
  }
  for (auto place = names->begin(); !second && place != names->end();)
    place = place->second == node ? names->erase(place) : std::next(place);
  (*names)[name] = node;
}

void DiskNode::ChangeName(const std::string& name, bool made, std::shared_ptr<DiskNode> node) {
  changes.push_back({.name = name, .made = made, .node = std::move(node)});
  changes.back().ApplyTo(&names);
}

void DiskNode::AddSecondName(const std::string& name, std::shared_ptr<DiskNode> node) {
  changes.push_back({.name = name, .made = true, .node = std::move(node), .second = true});
  changes.back().ApplyTo(&names);
}

void DiskNode::SyncNames() {
  for (NameChange& change : changes)
    change.synced = change.synced || !change.forsaken;
  // Those behind one that is not synced stay: what comes later on a name counts.
  size_t settled = 0;
  while (settled < changes.size() && changes[settled].synced)
    changes[settled++].ApplyTo(&names_synced);
  changes.erase(changes.begin(), changes.begin() + static_cast<ptrdiff_t>(settled));
}

void DiskNode::ForsakeNames() {
  for (NameChange& change : changes)
    change.forsaken = true;
}

std::shared_ptr<DiskNode> CopyDisk(const DiskNode& root) {
  std::map<const DiskNode*, std::shared_ptr<DiskNode>> copies;
  return CopyNode(root, &copies);
}

size_t ForEachCrashState(
    const DiskNode& root, size_t states_max, uint64_t seed,
    const std::function<void(std::shared_ptr<DiskNode> left, const std::string& what)>& look) {
  return CrashStates(root, states_max, seed, look).VisitAll();
}

}  // namespace weft::test
