// The commands of weftctl: what each is asked, and the functions that answer it, one source each. commands.cc has their
// options, apart from the answers: CLI11 and JSON cost the compiler too much to stand in one source.
//
//   CLI::App app;
//   CommandLine line;
//   AddCommands(app, &line);
//   app.parse(argc, argv);   // runs the command that it finds
//   fputs(line.output.text.c_str(), stdout);
//
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace weft {

// What a command says.
struct CommandOutput {
  std::string text;  // all of stdout; JSON is one document, and ends with a new line
  std::vector<std::string> problems;  // one sentence each, for stderr
  bool differs =
      false;  // of what was to be compared, or a checkpoint is damaged: the exit code is 1
};

enum class OptionsFormat { kText, kMarkdown, kJson };

enum class PipelineForm { kText, kJson, kSvg };

enum class TopologyForm { kText, kJson, kSvg };

// The command line of explain.
struct ExplainArguments {
  std::string operation;          // "all_reduce": a collective with one count, without its "weft_"
  std::string bytes;              // "4096", "64K": what the call's count comes to
  int ranks = 2;                  // of one node
  std::string dtype = "float32";  // as weft_dtype_name has it
  bool symmetric = false;         // all buffers are of weft_mem_alloc
};

// The command line of explain --nodes.
struct ExplainNodesArguments {
  std::string nodes;       // "2x4", "3,1", "2x4:cyclic"
  double latency_us = -1;  // between nodes; below 0: LinkModel's
  double gbit = -1;        // of a node's port; below 0: LinkModel's
};

// The command line of plan. Numbers that are long as digits come as text: "7e9", "7B", "40GB".
struct PlanArguments {
  std::string params;  // a number; K, M, B or G, T are powers of 1000
  int ranks = 0;
  std::string mix =
      "fp32";      // fp32, fp16, bf16, or bytes per element "params,main,gradients,optimizer"
  int units = 32;  // equal ones; not looked at where largest_unit is given
  std::string largest_unit;  // as params; "": of equal units
  int micro_batches = 1;
  std::string accumulation = "local";  // local, every or inner
  int shard_group = 0;                 // ranks; 0: none
  std::string budget;                  // "40GB", "36GiB" per rank; "": none
  std::string views = "move";          // move, stable or apart
  bool offload = false;                // optimizer state is in files
  bool offload_params = false;         // and params that are sharded at rest
};

// The command line of schedule show.
struct ScheduleArguments {
  std::string algorithm;  // "direct", "ring", ...
  std::string goal;       // "all_reduce", ...
  int participants = 0;
  uint64_t count = 1000;  // units of the vector, or of a block; a barrier has none
  int root = 0;
  int group = 0;            // of a hierarchy, whose schedule across the algorithm is; 0: none
  bool order_free = false;  // sums may be formed in any order
  int participant = -1;     // -1: all
};

// The command line of pipeline.
struct PipelineArguments {
  std::string kind;  // "1f1b", ..., or a file's name
  int ranks = 4;
  int microbatches = 8;
  int chunks = 1;
  // What things take, in any unit.
  double forward = 1, backward_input = 1, backward_weight = 1, message = 0;
  int rank = -1;  // whose actions are listed; -1: nobody's
};

// The command line of topology show, dump and svg.
struct TopologyArguments {
  std::string
      from;  // a file of topology dump or lstopo, sysfs, hwloc; "": this machine, or WEFT_TOPOLOGY_FILE
  std::string bind;  // core, l3, numa or package; "": no ranks are bound
  int ranks = 1;     // that are
};

// The command line of checkpoint export.
struct ExportArguments {
  std::string to;          // a file, or with shard_size a folder
  std::string shard_size;  // "5GB", "500MiB": values in one file; "": one file
};

// The command line of checkpoint import.
struct ImportArguments {
  std::string file;       // or an index, or a folder
  std::string directory;  // of all checkpoints
  int64_t step = 0;
};

// The command line of checkpoint prune.
struct PruneArguments {
  std::string directory;  // of all checkpoints
  int64_t keep_last = 0;  // 0: all that were committed
  int64_t keep_every = 0;
};

struct CommandLine {
  std::vector<std::string> files;  // of dump and schedule
  ScheduleArguments schedule;
  ExplainArguments explain;
  ExplainNodesArguments explain_nodes;
  PlanArguments plan;
  TopologyArguments topology;
  std::string compared;    // of topology diff: with what
  std::string checkpoint;  // a checkpoint's directory, or that of several
  ExportArguments exported;
  ImportArguments imported;
  PruneArguments pruned;
  PipelineArguments pipeline;
  CommandOutput output;
};

// Adds all commands to `app`; `line` outlives it.
void AddCommands(CLI::App& app, CommandLine* line);

// The table of settings that base/options.h holds. docs/options.md is its Markdown form.
CommandOutput PrintOptions(OptionsFormat format);

// Recorder dumps, what each rank had called when an operation failed: tables with the last operations of each rank and
// where they differ, or everything as JSON.
CommandOutput PrintDumps(const std::vector<std::string>& paths, bool json);

// What weft would do for a call on this machine, and why, as weft_explain says it, sums where it reduces. May measure
// the machine, which takes a tenth of a second.
CommandOutput PrintExplanation(const ExplainArguments& arguments, bool json);

// What weft would do on several nodes, for one operation and size or for a table of them: the schedules, what they send, and how
// long they take by a model of the links.
CommandOutput PrintNodesExplanation(const ExplainArguments& arguments,
                                    const ExplainNodesArguments& nodes, bool csv);

// What this machine costs, where that is known from, and the choices and predictions that follow. Measures as
// comm/select/load_model.h says; `measure` is WEFT_TUNE=measure.
CommandOutput PrintTuning(bool measure, bool json);

// The ops of a schedule that weft computes, of one participant or of all.
CommandOutput PrintSchedule(const ScheduleArguments& arguments, bool json);

// Reads schedules, weft's own (docs/formats/schedule.md) or MSCCL's XML, and proves them: a line each, with the hash.
CommandOutput VerifySchedules(const std::vector<std::string>& paths);

// Reads one, and if it can be proved prints it in weft's own format.
CommandOutput ImportSchedule(const std::string& path);

// A pipeline's schedule, proved: what a step takes, where ranks idle, what they keep; or the schedule itself
// (docs/formats/pipeline.md), or its picture.
CommandOutput PrintPipeline(const PipelineArguments& arguments, PipelineForm form);

// What a machine looks like, and which CPUs ranks get that are bound to parts of it.
CommandOutput PrintTopology(const TopologyArguments& arguments, TopologyForm form);

// Where two machines differ; nothing if they do not.
CommandOutput DiffTopologySources(const std::string& before, const std::string& after);

// The checkpoints in a directory: steps, who saved them, how large they are, and which is the latest that can be read.
CommandOutput ListCheckpointsIn(const std::string& directory, bool json);

// What a checkpoint has: tensors with the cuts of all ranks, numbers, values' names. `path`: of one, or of a directory whose latest is meant.
CommandOutput ShowCheckpoint(const std::string& path, bool json);

// Reads every byte of a checkpoint, or of all in a directory: a line each. A bar on stderr says how far it is, if that is a terminal.
CommandOutput VerifyCheckpoints(const std::string& path);

// The tensors of a checkpoint, or of the latest in a directory that is whole, in one safetensors file or a folder of several.
CommandOutput ExportCheckpoint(const std::string& path, const ExportArguments& arguments);

// A checkpoint of others' safetensors files.
CommandOutput ImportCheckpoint(const ImportArguments& arguments);

// Pins a checkpoint, or the latest in a directory, so that no save removes it; or ends that.
CommandOutput PinCheckpointAt(const std::string& path, bool pinned);

// Removes what is not to be kept, and what failed saves have left: a line each. Refused while a job saves there.
CommandOutput PruneCheckpoints(const PruneArguments& arguments);

// What each strategy costs for a model and a number of ranks, side by side.
CommandOutput PrintPlan(const PlanArguments& arguments, bool json);

}  // namespace weft
