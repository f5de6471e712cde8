#include "cli/weftrun/first_ending.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace weft {
namespace {

void AppendLastLines(const Rank& rank, std::vector<std::string>& text) {
  const auto& lines = rank.output->last_lines();
  if (lines.empty()) {
    text.emplace_back("it printed nothing");
    return;
  }
  text.push_back(lines.size() == 1 ? "its last line:"
                                   : StrCat("its last ", lines.size(), " lines:"));
  for (const std::string& line : lines)
    text.push_back(StrCat("  | ", line));
}

}  // namespace

// A rank that is held now was held when the failed one gave up waiting for it.
void FirstEnding::Note(const Rank& rank, bool look) {
  rank_ = &rank;
  if (!look || asked() || !rank.exit->MayFollow()) return;
  for (Rank& other : ranks_) {
    if (other.exit.has_value()) continue;
    other.state = ReadProcessState("", other.pid);
    if (held_ == nullptr && IsHeld(other.state)) held_ = &other;
  }
}

std::string FirstEnding::Text(std::string_view node, bool pids) const {
  const auto name = [&](const Rank& rank) {
    return pids ? rank.WithPid() : StrCat("rank ", rank.Label(), node);
  };
  const std::string end =
      StrCat(name(*rank_), asked() ? " was asked to end and " : " ", rank_->exit->ToString());
  return held_ == nullptr ? end
                          : StrCat(name(*held_), " was ", HoldText(held_->state), " when ", end);
}

bool FirstEnding::unsaved() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
    return rank.exit.has_value() && rank.exit->unsaved() && !rank.lost;
  });
}

int FirstEnding::exit_code() const {
  return asked() && unsaved() ? ExitReport::kUnsaved : rank_->exit->shell_code();
}

const Rank* FirstEnding::Named() const {
  if (rank_ == nullptr) return nullptr;
  if (held_ != nullptr) return held_;
  if (!rank_->exit->MayFollow() || !rank_->output->last_lines().empty()) return rank_;
  for (const Rank& rank : ranks_) {
    if (rank.failed() && !rank.lost && rank.exit->SameEnd(*rank_->exit) &&
        rank.output->complained())
      return &rank;
  }
  return rank_;
}

std::vector<std::string> FirstEnding::Report(std::string_view after) const {
  if (asked()) return ReportOfAsked(after);
  const Rank& rank = *Named();
  std::string how = rank.exit->ToString();
  if (held_ != nullptr) {
    how = StrCat("it was ", HoldText(held_->state), " when rank ", rank_->Label(), " ",
                 rank_->exit->ToString(), "; in the end ", how);
  }
  const bool first = held_ != nullptr || &rank == rank_;
  std::vector<std::string> text = {
      StrCat("rank ", rank.Label(), first ? " failed first: " : " failed: ", how, after,
             first ? "" : StrCat("; rank ", rank_->Label(), " was first and printed nothing"))};
  AppendLastLines(rank, text);
  const std::string others = Others();
  if (!others.empty()) text.push_back(StrCat("the others: ", others));
  return text;
}

// Nobody asks why the first one ended; somebody will why another one did not save what it had.
std::vector<std::string> FirstEnding::ReportOfAsked(std::string_view after) const {
  std::vector<std::string> text = {StrCat(Text("", /*pids=*/false), after)};
  for (const Rank& rank : ranks_) {
    if (!rank.failed() || rank.exit->asked() || rank.lost) continue;
    text.push_back(StrCat("rank ", rank.Label(), " did not end well: ", rank.exit->ToString()));
    AppendLastLines(rank, text);
    break;
  }
  const std::string others = Others();
  if (!others.empty()) text.push_back(StrCat("the others: ", others));
  return text;
}

std::vector<std::string> FirstEnding::WordsOf(int exit_code) const {
  for (const Rank& rank : ranks_) {
    if (!rank.failed() || rank.lost || !rank.exit->MayFollow() ||
        rank.exit->shell_code() != exit_code || !rank.output->complained()) {
      continue;
    }
    std::vector<std::string> text = {
        StrCat("rank ", rank.Label(), " ", rank.exit->ToString(), ", too")};
    AppendLastLines(rank, text);
    return text;
  }
  return {};
}

std::string FirstEnding::Others() const {
  const Rank* const named = asked() ? rank_ : Named();
  std::map<std::string, std::string> by_ending;
  for (const Rank& rank : ranks_) {
    if (&rank == named) continue;
    const std::string ending = rank.exit->ToString();
    std::string& list =
        by_ending[IsHeld(rank.state) ? StrCat("was ", HoldText(rank.state), ", in the end ", ending)
                                     : ending];
    list += StrCat(list.empty() ? "" : ", ", rank.Label());
  }
  std::string text;
  for (const auto& [ending, list] : by_ending) {
    const bool several = list.find(',') != std::string::npos;
    text += StrCat(text.empty() ? "" : "; ", several ? "ranks " : "rank ", list, " ", ending);
  }
  return text;
}

}  // namespace weft
