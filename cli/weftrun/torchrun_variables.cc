#include "cli/weftrun/torchrun_variables.h"

#include <string_view>

#include "absl/strings/numbers.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/weftrun/run_options.h"

namespace weft {
namespace {

// torchrun's, where the variables name a host and no port.
constexpr int kEndpointPort = 29400;
constexpr int kMasterPort = 29500;

class Reader {
 public:
  Reader(const VariableGetter& get, const CountedMachine& machine) : get_(get), machine_(machine) {}

  absl::Status Ranks(std::optional<int>* ranks) const;
  absl::Status NodeCount(std::optional<int>* nodes) const;
  absl::Status Number(const char* name, const char* option, int least, int most,
                      std::optional<int>* number) const;
  absl::Status Master(JobShape* shape) const;

 private:
  std::string Text(const char* name) const {
    const char* value = get_(name);
    return value == nullptr ? "" : value;
  }

  absl::Status Refuse(const char* name, std::string_view why) const {
    return MakeError(WEFT_INVALID_ARGUMENT, StrCat(name, "=", Text(name), ": ", why));
  }

  absl::Status Endpoint(JobShape* shape) const;

  const VariableGetter& get_;
  const CountedMachine& machine_;
};

absl::Status Reader::Number(const char* name, const char* option, int least, int most,
                            std::optional<int>* number) const {
  const std::string text = Text(name);
  if (number->has_value() || text.empty()) return absl::OkStatus();
  int value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < least || value > most) {
    return Refuse(
        name, StrCat("must be a whole number from ", least, " to ", most, ", or give ", option));
  }
  *number = value;
  return absl::OkStatus();
}

// "8", "cpu", and "auto", which is "cpu" where there are no devices.
absl::Status Reader::Ranks(std::optional<int>* ranks) const {
  constexpr const char* kName = "PET_NPROC_PER_NODE";
  const std::string text = Text(kName);
  if (ranks->has_value() || text.empty()) return absl::OkStatus();
  if (text == "cpu" || (text == "auto" && !machine_.devices)) {
    *ranks = machine_.cpus;
    return absl::OkStatus();
  }
  if (text == "auto" || text == "gpu" || text == "xpu") {
    return Refuse(kName, "weftrun does not count devices; give -n, the number of ranks");
  }
  return Number(kName, "-n", 1, kRanksPerNodeMax, ranks);
}

// "2", "2:2"; not "1:4", of a job that may be of any size.
absl::Status Reader::NodeCount(std::optional<int>* nodes) const {
  constexpr const char* kName = "PET_NNODES";
  const std::string text = Text(kName);
  const size_t colon = text.find(':');
  if (nodes->has_value() || colon == std::string::npos)
    return Number(kName, "--nnodes", 1, kNodesMax, nodes);
  int least = 0;
  int most = 0;
  if (!absl::SimpleAtoi(text.substr(0, colon), &least) ||
      !absl::SimpleAtoi(text.substr(colon + 1), &most) || least != most || least < 1 ||
      most > kNodesMax) {
    return Refuse(kName, "weftrun starts a fixed number of nodes; give --nnodes");
  }
  *nodes = least;
  return absl::OkStatus();
}

// "node0", "node0:29400", "[fd00::1]:29400".
absl::Status Reader::Endpoint(JobShape* shape) const {
  constexpr const char* kName = "PET_RDZV_ENDPOINT";
  const std::string text = Text(kName);
  std::string host = text;
  int port = kEndpointPort;
  const size_t colon = text.rfind(':');
  const bool bracketed = text.front() == '[';
  const bool has_port =
      colon != std::string::npos && (bracketed ? text[colon - 1] == ']' : text.find(':') == colon);
  if (has_port) {
    host = text.substr(0, colon);
    if (!absl::SimpleAtoi(text.substr(colon + 1), &port) || port < 0 || port > kMasterPortMax) {
      return Refuse(kName, StrCat("its port must be a whole number from 0 to ", kMasterPortMax,
                                  ", or give --master-addr and --master-port"));
    }
  }
  if (bracketed && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host.empty()) return Refuse(kName, "it has no host; give --master-addr and --master-port");
  if (!shape->master_host.has_value()) shape->master_host = host;
  if (!shape->master_port.has_value()) shape->master_port = port;
  return absl::OkStatus();
}

// The endpoint, where there is one, as torchrun takes it.
absl::Status Reader::Master(JobShape* shape) const {
  if (shape->master_host.has_value() && shape->master_port.has_value()) return absl::OkStatus();
  if (!Text("PET_RDZV_ENDPOINT").empty()) return Endpoint(shape);
  const std::string host = Text("PET_MASTER_ADDR");
  WEFT_RETURN_IF_ERROR(
      Number("PET_MASTER_PORT", "--master-port", 1, kMasterPortMax, &shape->master_port));
  if (shape->master_host.has_value() || host.empty()) return absl::OkStatus();
  shape->master_host = host;
  if (!shape->master_port.has_value()) shape->master_port = kMasterPort;
  return absl::OkStatus();
}

}  // namespace

absl::Status FillFromTorchrunVariables(const VariableGetter& get, const CountedMachine& machine,
                                       JobShape* shape) {
  const Reader reader(get, machine);
  WEFT_RETURN_IF_ERROR(reader.Ranks(&shape->ranks_per_node));
  WEFT_RETURN_IF_ERROR(reader.NodeCount(&shape->node_count));
  // Of several nodes: who runs on one for a try says --nnodes 1, on whichever it is.
  if (shape->node_count.value_or(1) > 1) {
    WEFT_RETURN_IF_ERROR(
        reader.Number("PET_NODE_RANK", "--node-rank", 0, kNodesMax - 1, &shape->node_rank));
  }
  return reader.Master(shape);
}

}  // namespace weft
