#include "cli/weftctl/commands.h"

#include <CLI/App.hpp>

namespace weft {
namespace {

constexpr int kBoundRanksMax = 4096;

void AddOptions(CLI::App& app, CommandLine* line) {
  CLI::App* command = app.add_subcommand("options", "the settings, their defaults and meaning");
  auto* markdown = command->add_flag("--markdown")->description("as a table for docs/options.md");
  auto* json = command->add_flag("--json")->description("for programs")->excludes(markdown);
  command->callback([=] {
    line->output = PrintOptions(*json       ? OptionsFormat::kJson
                                : *markdown ? OptionsFormat::kMarkdown
                                            : OptionsFormat::kText);
  });
}

void AddDump(CLI::App& app, CommandLine* line) {
  CLI::App* command = app.add_subcommand("dump", "what ranks had called when a group failed");
  auto* json = command->add_flag("--json")->description("everything, for programs");
  command->add_option("FILE", line->files, "weft-*.wfr, from WEFT_DUMP_DIR")->required();
  command->callback([=] { line->output = PrintDumps(line->files, bool(*json)); });
}

void AddExplain(CLI::App& app, CommandLine* line) {
  CLI::App* command = app.add_subcommand(
      "explain", "what weft does for a call on this machine, or on nodes, and why");
  command->add_option("OP", line->explain.operation, "all_reduce, all_gather...; all with --nodes");
  command->add_option("BYTES", line->explain.bytes,
                      "its count in bytes: 4096, 64K; several with --nodes");
  auto* ranks =
      command->add_option("--ranks", line->explain.ranks, "of one node")->capture_default_str();
  command->add_option("--dtype", line->explain.dtype, "of the elements")->capture_default_str();
  auto* symmetric = command->add_flag("--symmetric", line->explain.symmetric,
                                      "all buffers are of weft_mem_alloc");
  auto* json = command->add_flag("--json")->description("for programs");
  ExplainNodesArguments* const of_nodes = &line->explain_nodes;
  auto* nodes = command
                    ->add_option("--nodes", of_nodes->nodes,
                                 "2x4: two of four ranks; 3,1: one of three and one of one; "
                                 "2x4:cyclic: ranks by turns")
                    ->excludes(ranks, symmetric, json);
  command->add_option("--latency-us", of_nodes->latency_us, "between nodes")->needs(nodes);
  command->add_option("--gbit", of_nodes->gbit, "per second, of a node's port")->needs(nodes);
  auto* csv = command->add_flag("--csv")->description("for programs")->needs(nodes);
  command->callback([=] {
    line->output = bool(*nodes) ? PrintNodesExplanation(line->explain, *of_nodes, bool(*csv))
                                : PrintExplanation(line->explain, bool(*json));
  });
}

void AddTune(CLI::App& app, CommandLine* line) {
  CLI::App* command =
      app.add_subcommand("tune", "what this machine costs, and what follows from it");
  auto* measure = command->add_flag("--measure")->description("measure now, and keep it");
  auto* json = command->add_flag("--json")->description("for programs");
  command->callback([=] { line->output = PrintTuning(bool(*measure), bool(*json)); });
}

void AddModelOptions(CLI::App* command, PlanArguments* plan) {
  command->add_option("--params", plan->params, "of the model: 7e9, 350M, 7B (powers of 1000)")
      ->required();
  command->add_option("--ranks", plan->ranks, "that share it")->required();
  command
      ->add_option("--mix", plan->mix,
                   "fp32, fp16 or bf16; or bytes per param of params, main copy, gradients and "
                   "optimizer: 2,4,4,8")
      ->capture_default_str();
  auto* units = command->add_option("--units", plan->units, "equal ones")->capture_default_str();
  command->add_option("--largest-unit", plan->largest_unit, "its params, as --params")
      ->excludes(units);
}

void AddPlan(CLI::App& app, CommandLine* line) {
  CLI::App* command =
      app.add_subcommand("plan", "what each strategy costs per rank: memory and traffic");
  PlanArguments* const plan = &line->plan;
  AddModelOptions(command, plan);
  command->add_option("--microbatches", plan->micro_batches, "per step")->capture_default_str();
  command
      ->add_option(
          "--accumulation", plan->accumulation,
          "reduce gradients: local, with the last micro-batch; every, with each; inner, inside "
          "shard groups with each, across with the last")
      ->capture_default_str();
  command->add_option("--shard-group", plan->shard_group, "ranks of one, for hybrid and hpz");
  command->add_option("--budget", plan->budget, "of a rank: 40GB (10^9 bytes), 36GiB (2^30)");
  command
      ->add_option(
          "--views", plan->views,
          "addresses of params that are gathered: move; stable, the same in all steps; apart, "
          "with a place for each unit")
      ->capture_default_str();
  CLI::Option* const offload =
      command->add_flag("--offload", plan->offload, "main copies and optimizer state are in files");
  command
      ->add_flag("--offload-params", plan->offload_params,
                 "so are params that are sharded between steps")
      ->needs(offload);
  auto* json = command->add_flag("--json")->description("for programs");
  command->callback([=] { line->output = PrintPlan(*plan, bool(*json)); });
}

void AddPipeline(CLI::App& app, CommandLine* line) {
  CLI::App* command = app.add_subcommand(
      "pipeline", "in which order stages of a pipeline work, what a step takes, where ranks idle");
  PipelineArguments* const pipeline = &line->pipeline;
  command
      ->add_option("SCHEDULE", pipeline->kind,
                   "naive, gpipe, 1f1b, interleaved, zb-h1, or a file that --json wrote")
      ->required();
  command->add_option("--ranks", pipeline->ranks, "of the pipeline")->capture_default_str();
  command->add_option("--microbatches", pipeline->microbatches, "of a step")->capture_default_str();
  command->add_option("--chunks", pipeline->chunks, "of each rank, of interleaved")
      ->capture_default_str();
  command->add_option("--forward", pipeline->forward, "what it takes a stage, in any unit")
      ->capture_default_str();
  command->add_option("--backward-input", pipeline->backward_input, "the same")
      ->capture_default_str();
  command->add_option("--backward-weight", pipeline->backward_weight, "the same")
      ->capture_default_str();
  command->add_option("--message", pipeline->message, "from one rank to another")
      ->capture_default_str();
  auto* json = command->add_flag("--json")->description("the schedule, for programs");
  auto* svg = command->add_flag("--svg")->description("a picture")->excludes(json);
  command->add_option("--rank", pipeline->rank, "whose actions are listed")->excludes(json, svg);
  command->callback([=] {
    line->output = PrintPipeline(*pipeline, *json  ? PipelineForm::kJson
                                            : *svg ? PipelineForm::kSvg
                                                   : PipelineForm::kText);
  });
}

void AddSchedule(CLI::App& app, CommandLine* line) {
  CLI::App* command = app.add_subcommand("schedule", "who sends what to whom in a collective");
  command->require_subcommand(1);
  ScheduleArguments* const schedule = &line->schedule;
  CLI::App* show = command->add_subcommand("show", "the ops of a schedule that weft computes");
  show->add_option("ALGORITHM", schedule->algorithm, "direct, ring, tree_halving...")->required();
  show->add_option("GOAL", schedule->goal, "all_reduce, all_gather...")->required();
  show->add_option("PARTICIPANTS", schedule->participants, "their number")->required();
  show->add_option("--count", schedule->count, "units of the vector, or of a block")
      ->capture_default_str();
  show->add_option("--root", schedule->root, "of goals that have one")->capture_default_str();
  show->add_option("--group", schedule->group,
                   "participants of one group; the algorithm is for what crosses between groups");
  show->add_flag("--any-order", schedule->order_free, "sums may be formed in any order");
  auto* json = show->add_flag("--json")->description("for programs, and to be verified");
  show->add_option("--participant", schedule->participant, "only this one's ops")->excludes(json);
  show->callback([=] { line->output = PrintSchedule(*schedule, bool(*json)); });
  CLI::App* verify = command->add_subcommand("verify", "proves schedules, or says what is wrong");
  verify->add_option("FILE", line->files, "of weft's format, or MSCCL's XML")->required();
  verify->callback([=] { line->output = VerifySchedules(line->files); });
  CLI::App* imported =
      command->add_subcommand("import", "a schedule that is right, in weft's format");
  imported->add_option("FILE", line->files, "MSCCL's XML")->required()->expected(1);
  imported->callback([=] { line->output = ImportSchedule(line->files.front()); });
}

void AddTopology(CLI::App& app, CommandLine* line) {
  constexpr char kFrom[] = "FROM";
  constexpr char kSources[] =
      "a file, of topology dump or lstopo's XML; sysfs or hwloc: who looks at this machine";
  CLI::App* command = app.add_subcommand("topology", "what a machine looks like");
  command->require_subcommand(1);
  TopologyArguments* const topology = &line->topology;
  const auto add = [=](const char* name, const char* meaning, TopologyForm form) {
    CLI::App* one = command->add_subcommand(name, meaning);
    one->add_option(kFrom, topology->from, kSources);
    one->callback([=] { line->output = PrintTopology(*topology, form); });
    if (form == TopologyForm::kJson) return;
    auto* bind = one->add_option("--bind", topology->bind,
                                 "the CPUs of ranks bound as by weftrun: core, l3, numa, package");
    one->add_option("--ranks", topology->ranks, "how many are bound")
        ->check(CLI::Range(1, kBoundRanksMax))
        ->needs(bind)
        ->capture_default_str();
  };
  add("show", "its packages, NUMA nodes, caches, cores and network devices", TopologyForm::kText);
  add("dump", "the same in a file that WEFT_TOPOLOGY_FILE takes", TopologyForm::kJson);
  add("svg", "the same as a drawing", TopologyForm::kSvg);
  CLI::App* diff = command->add_subcommand("diff", "where two differ; exit code 1 if they do");
  diff->add_option(kFrom, topology->from, kSources)->required();
  diff->add_option("TO", line->compared, "the same; this machine, if it is not given");
  diff->callback([=] { line->output = DiffTopologySources(topology->from, line->compared); });
}

void AddCheckpoint(CLI::App& app, CommandLine* line) {
  constexpr char kPath[] = "PATH";
  constexpr char kLatest[] = "of a checkpoint, or of a directory whose latest is meant";
  CLI::App* command = app.add_subcommand("checkpoint", "what was saved, whole or as one file");
  command->require_subcommand(1);
  const auto add = [=](const char* name, const char* meaning, const char* argument,
                       const char* what) {
    CLI::App* one = command->add_subcommand(name, meaning);
    one->add_option(argument, line->checkpoint, what)->required();
    return one;
  };
  CLI::App* list = add("list", "the checkpoints in a directory", "DIR", "of all checkpoints");
  auto* list_json = list->add_flag("--json")->description("for programs");
  list->callback([=] { line->output = ListCheckpointsIn(line->checkpoint, bool(*list_json)); });
  CLI::App* show = add("show", "tensors and their cuts, numbers, values", kPath, kLatest);
  auto* show_json = show->add_flag("--json")->description("for programs");
  show->callback([=] { line->output = ShowCheckpoint(line->checkpoint, bool(*show_json)); });
  CLI::App* verify = add("verify", "reads every byte; exit code 1 if one has changed", kPath,
                         "of a checkpoint, or of a directory of which all are meant");
  verify->callback([=] { line->output = VerifyCheckpoints(line->checkpoint); });
  CLI::App* exported = add("export", "all tensors, whole, in safetensors files", kPath, kLatest);
  ExportArguments* const to = &line->exported;
  exported
      ->add_option("--to", to->to,
                   "the file, which is not there yet; with --shard-size the folder of the model")
      ->required();
  exported->add_option("--shard-size", to->shard_size,
                       "bytes of values in one file, as 5GB or 500MiB: model-00001-of-00003."
                       "safetensors and so on, and their index, as transformers has them");
  exported->callback([=] { line->output = ExportCheckpoint(line->checkpoint, *to); });
  CLI::App* pin = add("pin", "keeps one, whatever is saved later", kPath, kLatest);
  pin->callback([=] { line->output = PinCheckpointAt(line->checkpoint, true); });
  CLI::App* unpin = add("unpin", "ends that", kPath, kLatest);
  unpin->callback([=] { line->output = PinCheckpointAt(line->checkpoint, false); });
  CLI::App* prune = command->add_subcommand(
      "prune", "removes outdated ones, and what failed saves have left, while no job saves there");
  PruneArguments* const what = &line->pruned;
  prune->add_option("DIR", what->directory, "of all checkpoints")->required();
  prune->add_option("--keep-last", what->keep_last, "so many, and those that are pinned; 0: all")
      ->capture_default_str();
  prune->add_option("--keep-every", what->keep_every, "and those of steps that it divides; 0: none")
      ->capture_default_str();
  prune->callback([=] { line->output = PruneCheckpoints(*what); });
  CLI::App* imported =
      command->add_subcommand("import", "makes a checkpoint of others' safetensors files");
  ImportArguments* const from = &line->imported;
  imported
      ->add_option("FILE", from->file,
                   "of weft, or of another program; the index of several; or their folder")
      ->required();
  imported->add_option("DIR", from->directory, "of all checkpoints; this one is its latest")
      ->required();
  imported->add_option("--step", from->step, "that it is said to be of")->capture_default_str();
  imported->callback([=] { line->output = ImportCheckpoint(*from); });
}

}  // namespace

void AddCommands(CLI::App& app, CommandLine* line) {
  AddOptions(app, line);
  AddDump(app, line);
  AddExplain(app, line);
  AddTune(app, line);
  AddPipeline(app, line);
  AddPlan(app, line);
  AddSchedule(app, line);
  AddTopology(app, line);
  AddCheckpoint(app, line);
}

}  // namespace weft
