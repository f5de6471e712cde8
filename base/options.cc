// A row of kSettings is all there is to a setting: parsing, messages, `weftctl options` and docs/options.md follow from it.
// Nothing in here fails, because a library must not keep a program from starting over an environment variable: each fault is
// one warning. A variable that is set but empty counts as unset, as scripts mean it.
#include "base/options.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <variant>

#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/edit_distance.h"
#include "base/log.h"
#include "base/quantity.h"
#include "base/text.h"

namespace weft {
namespace {

using Field =
    std::variant<std::string Options::*, int64_t Options::*, double Options::*, bool Options::*>;

// What a number may be.
struct Range {
  int64_t minimum = 0;
  int64_t maximum = 0;
};

struct Setting {
  OptionRow row;
  Field field;
  Range range;                    // of a number
  const char* choices = nullptr;  // of a choice, separated by |
};

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// The defaults repeat those of struct Options as text; a test compares them.
const Setting kSettings[] = {
    {{"WEFT_LOG", "choice", "warn", "What is logged: error, warn, info or debug."},
     &Options::log_level,
     {},
     "error|warn|info|debug"},
    {{"WEFT_TIMEOUT_S", "seconds", "1800",
      "Deadline of an operation and of making a group, unless the call or the group gives one."},
     &Options::timeout_s,
     {0, 1'000'000'000}},
    {{"WEFT_UNREACHABLE_S", "seconds", "3",
      "How long a machine that does not answer is waited for until its ranks are unreachable, at "
      "least 0.5; one that answers while its ranks are stopped is waited for until the deadline."},
     &Options::unreachable_s,
     {0, 3600}},
    {{"WEFT_ISA", "text", "",
      "Instruction set of the reduction kernels: scalar, avx2 or avx512; empty is the best the CPU "
      "has."},
     &Options::isa},
    {{"WEFT_HEAP_BYTES", "bytes", "0",
      "Address space reserved for the symmetric heap; 0 is the size of physical memory, less where "
      "the addresses of a process are limited."},
     &Options::heap_bytes,
     {0, kNoLimit}},
    {{"WEFT_SPIN_COUNT", "integer", "-1",
      "Probes of a waiting rank before it yields; -1 lets weft choose by what waiting costs."},
     &Options::spin_count,
     {-1, 1'000'000'000}},
    {{"WEFT_YIELD_COUNT", "integer", "-1",
      "Yields of a waiting rank before it sleeps; -1 lets weft choose by what waiting costs."},
     &Options::yield_count,
     {-1, 1'000'000'000}},
    {{"WEFT_PROGRESS", "choice", "thread",
      "Who advances asynchronous operations: thread (one hidden thread per process) or caller."},
     &Options::progress,
     {},
     "thread|caller"},
    {{"WEFT_SINGLE_COPY", "boolean", "1",
      "Lets a rank read private buffers of its peers on the machine with process_vm_readv where "
      "that "
      "is quicker and the system allows it; set to 0 to do without."},
     &Options::single_copy},
    {{"WEFT_COMBINE", "choice", "auto",
      "Whether the last rank to arrive reduces small operations for all: auto (in groups of more "
      "ranks than CPUs), 0 (never) or 1 (always); rank 0's setting counts for its group."},
     &Options::combine,
     {},
     "auto|0|1"},
    {{"WEFT_SPREAD", "boolean", "1",
      "Lets a rank that waits move to a CPU, of those that it may use, on which fewer ranks of its "
      "group run; set to 0 to leave threads where the system puts them."},
     &Options::spread},
    {{"WEFT_TUNE", "choice", "auto",
      "Where the costs of this machine come from: auto (a file in the user's cache directory, "
      "which is "
      "measured and written when there is none), static (constants) or measure (measured and "
      "written "
      "every time)."},
     &Options::tune,
     {},
     "auto|static|measure"},
    {{"WEFT_DUMP_DIR", "text", "",
      "Directory that gets a dump of the flight recorder when an operation fails; empty is none."},
     &Options::dump_dir},
    {{"WEFT_FAKE_NODES", "text", "",
      "Cuts the ranks of one machine into nodes that share no memory, for tests: a number of nodes "
      "that take the ranks of each group in order, as evenly as possible, or the node of each "
      "rank, "
      "as 0,0,1,0, for groups of so many ranks."},
     &Options::fake_nodes},
    {{"WEFT_SCHEDULE_FILE", "text", "",
      "Files with schedules, as weftctl schedule import writes them, with colons between: groups "
      "over "
      "several nodes carry out calls by those that serve them, once they are proved; all ranks "
      "must "
      "have the same ones."},
     &Options::schedule_file},
    {{"WEFT_IFNAME", "text", "",
      "Network interface whose address other machines are told, as NCCL_SOCKET_IFNAME: names that "
      "it begins with, as eth,ib; after = whole names; after ^ those that it must not have. "
      "Several "
      "that are named are rails, over all of which large messages go. Empty "
      "is GLOO_SOCKET_IFNAME (whole names), else NCCL_SOCKET_IFNAME, else the first that is up and "
      "no loopback; those without carrier, bridges and tunnels come last."},
     &Options::ifname},
    {{"WEFT_TRANSPORT", "text", "auto",
      "What carries data between nodes: tcp, ucx (the module libweft_ucx.so) or auto, which is ucx "
      "where all ranks have RDMA adapters and the module, else tcp; the same for all ranks."},
     &Options::transport},
    {{"WEFT_NET_STREAMS", "integer", "1",
      "TCP connections of two ranks over each network between them, for large messages, where one "
      "does not fill it."},
     &Options::net_streams,
     {1, 8}},
    {{"WEFT_NET_BYTES", "bytes", "64M",
      "Memory that a rank keeps for what is on its way between nodes when no operation has it; "
      "what "
      "is more is given back at once."},
     &Options::net_bytes,
     {0, kNoLimit}},
    {{"WEFT_PROBE", "boolean", "0",
      "Measures the links between nodes while a group of all ranks is made, for half a second at "
      "most, and chooses its schedules by them; rank 0's setting counts for its group."},
     &Options::probe},
    {{"WEFT_OFFLOAD_IO", "choice", "auto",
      "What reads and writes offloaded state: uring (io_uring, by the module libweft_uring.so), "
      "threads, or auto, which is uring where it can be had, else threads."},
     &Options::offload_io,
     {},
     "auto|uring|threads"},
    {{"WEFT_CUDA_LIBRARY", "text", "",
      "CUDA's driver, a path or a name that the system's loader looks for. Empty is libcuda.so.1."},
     &Options::cuda_library},
    {{"WEFT_TOPOLOGY_FILE", "text", "",
      "File that describes a machine, as weftctl topology dump writes it; it is believed in place "
      "of what the system says. Empty is the machine itself."},
     &Options::topology_file},
    {{"WEFT_INSECURE", "boolean", "0",
      "Lets ranks on several nodes find each other without a job secret."},
     &Options::insecure},
    {{"WEFT_JOB_SECRET_FILE", "text", "",
      "File with the job's secret, readable by its owner only; the same on every node."},
     &Options::job_secret_file},
    {{"WEFT_JOB_SECRET_FD", "integer", "-1",
      "Inherited file descriptor with the job's secret; set by weftrun."},
     &Options::job_secret_fd,
     {-1, std::numeric_limits<int32_t>::max()}},
    {{"WEFT_MASTER_PORT", "integer", "0",
      "TCP port of the store on the first node; 0 is MASTER_PORT."},
     &Options::master_port,
     {0, 65535}},
    {{"WEFT_STORE", "text", "",
      "Where the store listens, unix:@name or tcp:host:port; set by weftrun."},
     &Options::store},
    {{"WEFT_JOB_ID", "text", "", "Name of the job, in messages and names; set by weftrun."},
     &Options::job_id},
    {{"WEFT_RESTART_COUNT", "integer", "0",
      "How often weftrun has started all ranks again or, with --elastic, this rank alone; set by "
      "weftrun."},
     &Options::restart_count,
     {0, kNoLimit}},
    {{"WEFT_JOIN", "boolean", "0",
      "weft_group_create_from_env joins the group that runs instead of making one; set by "
      "weftrun."},
     &Options::join},
    {{"WEFT_LIBRARY_PATH", "text", "",
      "The libweft.so.0, or its folder, that the Python package loads in place of its own; read at "
      "import."},
     &Options::library_path},
    {{"WEFT_TORCH_EXTENSION", "boolean", "1",
      "Whether process groups of PyTorch use what python -m weft.torch.build_ext has compiled; "
      "read by the Python package when the first one is made."},
     &Options::torch_extension},
};

// Read by ./dev and the build presets, not by the library.
constexpr std::string_view kForeignNames[] = {"WEFT_PREFIX"};

bool ParseBoolean(std::string_view text, bool* value) {
  const std::string lower = absl::AsciiStrToLower(ToAbsl(text));
  for (const char* yes : {"1", "true", "yes", "on"}) {
    if (lower == yes) return *value = true, true;
  }
  for (const char* no : {"0", "false", "no", "off"}) {
    if (lower == no) return *value = false, true;
  }
  return false;
}

bool ParseChoice(const Setting& setting, std::string_view text) {
  const std::vector<std::string> choices = absl::StrSplit(setting.choices, '|');
  return std::find(choices.begin(), choices.end(), text) != choices.end();
}

bool ParseNumber(const Setting& setting, std::string_view text, int64_t* value) {
  const bool bytes = std::string_view(setting.row.type) == "bytes";
  int64_t parsed = 0;
  if (!(bytes ? ParseBytes(text, &parsed) : absl::SimpleAtoi(ToAbsl(text), &parsed))) return false;
  if (parsed < setting.range.minimum || parsed > setting.range.maximum) return false;
  *value = parsed;
  return true;
}

bool ParseSeconds(const Setting& setting, std::string_view text, double* value) {
  double parsed = 0;
  if (!absl::SimpleAtod(absl::StripSuffix(ToAbsl(text), "s"), &parsed)) return false;
  if (!std::isfinite(parsed) || parsed <= static_cast<double>(setting.range.minimum)) return false;
  if (parsed > static_cast<double>(setting.range.maximum)) return false;
  *value = parsed;
  return true;
}

bool Assign(const Setting& setting, std::string_view text, Options* options) {
  if (const auto* field = std::get_if<int64_t Options::*>(&setting.field)) {
    return ParseNumber(setting, text, &(options->*(*field)));
  }
  if (const auto* field = std::get_if<double Options::*>(&setting.field)) {
    return ParseSeconds(setting, text, &(options->*(*field)));
  }
  if (const auto* field = std::get_if<bool Options::*>(&setting.field)) {
    return ParseBoolean(text, &(options->*(*field)));
  }
  if (setting.choices != nullptr && !ParseChoice(setting, text)) return false;
  options->*std::get<std::string Options::*>(setting.field) = std::string(text);
  return true;
}

std::string Expected(const Setting& setting) {
  if (setting.choices != nullptr) return StrCat("one of ", setting.choices);
  const std::string_view type = setting.row.type;
  if (type == "boolean") return "0 or 1";
  if (type == "bytes") return "bytes such as 4096, 64M or 1G";
  if (type == "seconds") {
    return StrCat("seconds, more than 0 and at most ", setting.range.maximum);
  }
  if (setting.range.maximum == kNoLimit) return StrCat("a number from ", setting.range.minimum);
  return StrCat("a number from ", setting.range.minimum, " to ", setting.range.maximum);
}

std::string_view NearestName(std::string_view name) {
  const auto nearest = std::min_element(
      std::begin(kSettings), std::end(kSettings), [name](const Setting& a, const Setting& b) {
        return EditDistance(name, a.row.environment) < EditDistance(name, b.row.environment);
      });
  return nearest->row.environment;
}

void ParseLine(std::string_view line, Options* options, std::vector<std::string>* warnings) {
  const size_t equals = line.find('=');
  if (equals == std::string_view::npos) return;
  const std::string_view name = line.substr(0, equals);
  const std::string_view value = line.substr(equals + 1);
  if (!absl::StartsWith(ToAbsl(name), "WEFT_")) return;
  for (const Setting& setting : kSettings) {
    if (name != setting.row.environment) continue;
    // Set but empty is how scripts unset a variable.
    if (value.empty() || Assign(setting, value, options)) return;
    warnings->push_back(StrCat(name, "=", value.substr(0, 80), " is not ", Expected(setting),
                               "; using the default, ",
                               *setting.row.default_value ? setting.row.default_value : "empty"));
    return;
  }
  if (std::find(std::begin(kForeignNames), std::end(kForeignNames), name) !=
      std::end(kForeignNames)) {
    return;
  }
  warnings->push_back(StrCat("the environment variable ", name.substr(0, 80),
                             " is not an option of weft and does nothing; did you mean ",
                             NearestName(name), "?"));
}

struct Loaded {
  Options options;
  std::vector<std::string> warnings;
};

Loaded Load() {
  std::vector<std::string> lines;
  for (char** line = environ; line != nullptr && *line != nullptr; ++line)
    lines.emplace_back(*line);
  Loaded loaded;
  loaded.options = ParseOptions(lines, &loaded.warnings);
  return loaded;
}

}  // namespace

Options ParseOptions(const std::vector<std::string>& environment,
                     std::vector<std::string>* warnings) {
  Options options;
  for (const std::string& line : environment)
    ParseLine(line, &options, warnings);
  return options;
}

const Options& GetOptions() {
  static const Loaded loaded = Load();
  // The logger asks for its level here, so the flag goes up before the first warning is logged.
  static std::atomic<bool> warned{false};
  if (!warned.load(std::memory_order_relaxed) && !warned.exchange(true)) {
    for (const std::string& warning : loaded.warnings)
      LogWarn(warning);
  }
  return loaded.options;
}

int64_t TimeoutOrDefault(int64_t timeout_ns) {
  return timeout_ns > 0 ? timeout_ns : static_cast<int64_t>(GetOptions().timeout_s * 1e9);
}

int64_t UnreachableNs() {
  return static_cast<int64_t>(GetOptions().unreachable_s * 1e9);
}

size_t OptionCount() {
  return std::size(kSettings);
}

const OptionRow& OptionAt(size_t index) {
  WEFT_CHECK(index < std::size(kSettings));
  return kSettings[index].row;
}

const char* EnvironmentValue(const char* name) {
  return std::getenv(name);
}

}  // namespace weft
