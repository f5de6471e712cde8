#include "comm/select/machine_model.h"

#include <cmath>

namespace weft {
namespace {

constexpr ModelField kFields[] = {
    {"sync_ns", &MachineModel::sync_ns, "a flag from rank to rank"},
    {"probe_ns", &MachineModel::probe_ns, "one probe of a spinning rank"},
    {"yield_ns", &MachineModel::yield_ns, "to the next rank on a core by sched_yield"},
    {"futex_ns", &MachineModel::futex_ns, "waking a sleeping rank"},
    {"copy_line_ns", &MachineModel::copy_line_ns, "copying a line within L2"},
    {"dram_copy_line_ns", &MachineModel::dram_copy_line_ns, "copying a line in memory"},
    {"dram_copy_stream_line_ns", &MachineModel::dram_copy_stream_line_ns,
     "the same with non-temporal stores"},
    {"reduce2_line_ns", &MachineModel::reduce2_line_ns, "a line of float32 sums of two sources"},
    {"store_shared_plain_line_ns", &MachineModel::store_shared_plain_line_ns,
     "writing a line that the peer has read"},
    {"store_shared_stream_line_ns", &MachineModel::store_shared_stream_line_ns,
     "the same with non-temporal stores"},
    {"read_shared_plain_line_ns", &MachineModel::read_shared_plain_line_ns,
     "reading a line that the peer wrote"},
    {"read_shared_stream_line_ns", &MachineModel::read_shared_stream_line_ns,
     "reading a line that the peer wrote with non-temporal stores"},
    {"single_copy_call_ns", &MachineModel::single_copy_call_ns, "calling process_vm_readv"},
    {"single_copy_page_ns", &MachineModel::single_copy_page_ns, "per page that it copies"},
    {"single_copy_line_ns", &MachineModel::single_copy_line_ns, "per line that it copies"},
};

bool IsSaneTime(double ns) {
  return std::isfinite(ns) && ns > 0 && ns < kModelTimeMaxNs;
}

bool IsSaneCache(uint64_t bytes) {
  return bytes >= 1024 && bytes <= uint64_t{1} << 40;
}

}  // namespace

MachineModel StaticModel(const HostFacts& host) {
  MachineModel model;
  model.l1_bytes = host.l1_bytes;
  model.l2_bytes = host.l2_bytes;
  model.l3_bytes = host.l3_bytes;
  model.cores = host.cores;
  return model;
}

std::span<const ModelField> ModelFields() {
  return kFields;
}

bool IsSane(const MachineModel& model) {
  for (const ModelField& field : kFields) {
    if (!IsSaneTime(model.*field.value)) return false;
  }
  return IsSaneCache(model.l1_bytes) && IsSaneCache(model.l2_bytes) &&
         IsSaneCache(model.l3_bytes) && std::isfinite(model.cores) && model.cores > 0 &&
         model.cores <= 65536;
}

}  // namespace weft
