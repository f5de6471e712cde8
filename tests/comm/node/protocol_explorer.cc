#include "protocol_explorer.h"

#include <functional>
#include <random>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "fmt/format.h"

namespace weft::test {
namespace {

constexpr size_t kStepsShown = 60;

struct Choice {
  int rank = 0;
  Action action = Action::kIssue;
};

// The n-th of what the ranks can do at all.
Choice ChoiceOf(int n) {
  return {n / 2, n % 2 == 0 ? Action::kIssue : Action::kWork};
}

uint64_t HashOf(const ProtocolState& state) {
  return std::hash<std::string_view>()(
      {reinterpret_cast<const char*>(&state), sizeof(ProtocolState)});
}

std::string Report(const ProtocolModel& model, const std::string& problem,
                   const std::vector<Choice>& steps) {
  std::string text =
      fmt::format("{}\n  {}\n  after {} steps:", problem, Describe(model.world()), steps.size());
  const size_t first = steps.size() > kStepsShown ? steps.size() - kStepsShown : 0;
  if (first > 0) text += " ...";
  for (size_t i = first; i < steps.size(); ++i)
    text +=
        fmt::format(" {}{}", steps[i].action == Action::kIssue ? "issue" : "work", steps[i].rank);
  return text;
}

struct Frame {
  ProtocolState state;
  int next = 0;        // choice to try
  bool moved = false;  // somebody can move
};

std::vector<Choice> PathOf(const std::vector<Frame>& stack) {
  std::vector<Choice> path;
  for (const Frame& frame : stack)
    path.push_back(ChoiceOf(frame.next - 1));
  return path;
}

}  // namespace

Exploration ExploreAll(const ProtocolModel& model, size_t states_max) {
  const int choices = 2 * model.world().ranks;
  std::unordered_set<uint64_t> seen{HashOf(model.Initial())};
  std::vector<Frame> stack{{model.Initial()}};
  Exploration result;
  while (!stack.empty()) {
    Frame& top = stack.back();
    if (top.next == choices) {
      if (!top.moved) result.problem = model.CheckEnd(top.state);
      stack.pop_back();
      if (!result.problem.empty()) {
        result.problem = Report(model, result.problem, PathOf(stack));
        break;
      }
      continue;
    }
    const Choice choice = ChoiceOf(top.next++);
    if (!model.Possible(top.state, choice.rank, choice.action)) continue;
    top.moved = true;
    Frame after{top.state};
    result.problem = model.Move(after.state, choice.rank, choice.action);
    if (result.problem.empty() && seen.size() > states_max) result.problem = "too many states";
    if (!result.problem.empty()) {
      result.problem = Report(model, result.problem, PathOf(stack));
      break;
    }
    if (seen.insert(HashOf(after.state)).second) stack.push_back(after);
  }
  result.states = seen.size();
  return result;
}

Exploration WalkAtRandom(const ProtocolModel& model, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> weights;
  for (int rank = 0; rank < model.world().ranks; ++rank) {
    const double speed = 1 << random() % 7;
    weights.push_back(speed * static_cast<double>(1 + random() % 4));  // how far it announces ahead
    weights.push_back(speed);
  }
  ProtocolState state = model.Initial();
  std::vector<Choice> steps;
  Exploration result;
  for (;; ++result.states) {
    std::vector<double> possible = weights;
    bool any = false;
    for (int n = 0; n < static_cast<int>(weights.size()); ++n) {
      const Choice choice = ChoiceOf(n);
      const bool can = model.Possible(state, choice.rank, choice.action);
      if (!can) possible[static_cast<size_t>(n)] = 0;
      any = any || can;
    }
    if (any) {
      std::discrete_distribution<int> draw(possible.begin(), possible.end());
      steps.push_back(ChoiceOf(draw(random)));
      result.problem = model.Move(state, steps.back().rank, steps.back().action);
    } else {
      result.problem = model.CheckEnd(state);
    }
    if (!result.problem.empty())
      result.problem = fmt::format("seed {}: {}", seed, Report(model, result.problem, steps));
    if (!any || !result.problem.empty()) return result;
  }
}

}  // namespace weft::test
