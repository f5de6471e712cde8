#include "trainer/origin.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trainer/failure.h"
#include "trainer/model_files/saved_model.h"
#include "trainer/plan.h"
#include "trainer/run_files.h"
#include "trainer/run_folder.h"
#include "trainer/verdict.h"

namespace weft::trainer {
namespace {

// "" of none.
std::string TensorsLine(const char* what, const std::vector<std::string>& names) {
  return names.empty() ? "" : fmt::format("       {}: {}\n", what, fmt::join(names, ", "));
}

}  // namespace

Origin::Origin(const ProgramConfig& config, ResolvedConfig resolved, weft_group_t group,
               std::string checkpoints, bool own)
    : config_(config),
      resolved_(std::move(resolved)),
      group_(group),
      checkpoints_(std::move(checkpoints)),
      own_(own) {}

std::string Origin::From() const {
  if (own_) return checkpoints_;
  std::string from = config_.resume;
  if (from.empty()) from = config_.restarts > 0 && config_.checkpoint_every > 0 ? "auto" : "none";
  if (from == "none") return "";
  if (from == "auto" || Step()) return checkpoints_;
  from = CheckpointsIn(from);
  return IsSamePath(from, checkpoints_) ? checkpoints_ : from;
}

std::optional<int64_t> Origin::Step() const {
  return own_ ? std::nullopt : StepIn(config_.resume);
}

std::unique_ptr<Checkpoints> Origin::CheckpointsOf(const Trainer& trainer,
                                                   const std::string& directory,
                                                   size_t keep) const {
  return std::make_unique<Checkpoints>(group_, trainer.parallel(), directory, keep, resolved_,
                                       config_.changed);
}

std::unique_ptr<Checkpoints> Origin::MakeCheckpoints(const Trainer& trainer) const {
  return CheckpointsOf(trainer, checkpoints_, config_.keep);
}

std::unique_ptr<Checkpoints> Origin::MakeBest(const Trainer& trainer) const {
  const std::filesystem::path best = std::filesystem::path(checkpoints_).parent_path() / "best";
  return CheckpointsOf(trainer, best.string(), 1);
}

std::optional<Resumed> Origin::Resume(const Trainer& trainer,
                                      std::unique_ptr<Checkpoints>* checkpoints) const {
  const std::string from = From();
  const bool elsewhere = !from.empty() && from != checkpoints_;
  std::optional<Resumed> resumed;
  if (elsewhere) resumed = CheckpointsOf(trainer, from, config_.keep)->Resume();
  const auto check_found = [&] {
    if (resumed || from.empty() || config_.resume.empty() || config_.resume == "auto") return;
    throw BadInput("--resume " + config_.resume +
                   ": there is no checkpoint there; give the directory of a run that has saved");
  };
  if (elsewhere) check_found();
  if (config_.checkpoint_every == 0 && from != checkpoints_) return resumed;
  *checkpoints = MakeCheckpoints(trainer);
  if (config_.checkpoint_every > 0) (*checkpoints)->CheckWritable();
  if (from == checkpoints_) resumed = (*checkpoints)->Resume(Step());
  if (Step() && !resumed) {
    throw BadInput(
        fmt::format("--resume {}: there is no checkpoint of that step in {}; weftctl "
                    "checkpoint list {} shows those that there are",
                    config_.resume, checkpoints_, checkpoints_));
  }
  check_found();
  if (config_.checkpoint_every == 0) checkpoints->reset();
  return resumed;
}

bool Origin::TakeOtherPrograms(Trainer& trainer) const {
  std::optional<ParamValues> values;
  const std::string found = HearOfFirst(group_, [&] {
    values = OtherProgramsValues(config_.init, config_.train.model);
    return values ? config_.init : std::string();
  });
  if (found.empty()) return false;
  trainer.LoadParams([&](const ParamSpec& spec, size_t) { return (*values)(spec); });
  return true;
}

std::optional<InitialValues> Origin::TakeValues(Trainer& trainer, Checkpoints* checkpoints) const {
  if (config_.init.empty()) return std::nullopt;
  if (TakeOtherPrograms(trainer)) return InitialValues{config_.init, 0, {}, {}};
  const std::string from = CheckpointsIn(config_.init);
  std::unique_ptr<Checkpoints> made;
  if (checkpoints == nullptr) {
    made = MakeCheckpoints(trainer);
    checkpoints = made.get();
  }
  std::optional<InitialValues> values = checkpoints->TakeValues(from, config_.init_partial);
  if (values) return values;
  throw BadInput(
      "--init " + config_.init +
      ": there is no checkpoint there; give the directory of a run that has saved, that "
      "of a checkpoint, llm.c's file of weights, or a .safetensors file or a folder of them");
}

void Origin::TakeMetricsAlong(const std::string& directory) const {
  MakeRunDirectory(directory);
  const std::string checkpoints = From();  // of one, or of several
  const std::filesystem::path path(checkpoints);
  const std::filesystem::path of_all = HasManifest(checkpoints) ? path.parent_path() : path;
  const std::filesystem::path from = of_all.parent_path() / "metrics.jsonl";
  const std::filesystem::path to = std::filesystem::path(directory) / "metrics.jsonl";
  std::error_code error;
  if (!std::filesystem::exists(from, error) || std::filesystem::exists(to, error)) return;
  std::filesystem::copy_file(from, to, error);
  if (!error) return;
  std::error_code ignored;
  std::filesystem::remove(to, ignored);  // a part of it would have holes
  ThrowUnwritable(to.string(), error.value());
}

std::string DescribeResumed(const Resumed& resumed, size_t size, size_t steps) {
  const size_t step = resumed.last.step;
  std::string text = fmt::format("{} on after step {}, from {}, which {} saved\n",
                                 Counted(size, "rank goes", "ranks go"), step, resumed.path,
                                 Counted(size_t(resumed.ranks), "rank has", "ranks have"));
  if (!resumed.differences.empty())
    text += "other options than before: " + resumed.differences + "\n";
  if (step >= steps) {
    text += fmt::format(
        "no step is left to be made: the checkpoint is of step {}, and --steps is {}; "
        "give more than {} to train on\n",
        step, steps, step);
  }
  return text;
}

std::string DescribeValues(const InitialValues& values, size_t size) {
  return fmt::format(
      "{} with the weights of {}{}\n{}{}", Counted(size, "rank begins", "ranks begin"), values.path,
      values.ranks == 0
          ? ""
          : ", which " + Counted(size_t(values.ranks), "rank has", "ranks have") + " saved",
      TensorsLine("not taken, as this model has none of that name", values.unused),
      TensorsLine("not in it, and as in a run without --init", values.kept));
}

}  // namespace weft::trainer
