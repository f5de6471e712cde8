// An MSCCL algorithm as its XML has it: which thread block of which GPU does which steps. MSCCL is Microsoft's collective communication
// library, whose algorithms are files (github.com/microsoft/msccl, examples of which are made by msccl-tools).
//
//   WEFT_ASSIGN_OR_RETURN(const MscclAlgorithm algorithm, ReadMscclXml(text));
//
// Thread-safety: pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace weft {

struct MscclStep {
  int number = 0;          // "s"; others wait for it by this number
  std::string type;        // "s", "r", "rcs", "rrs", "rrc", "rrcs", "re", "cpy", "nop"
  char from_buffer = 'i';  // 'i', 'o' or 's'
  uint64_t from = 0;       // chunks
  char to_buffer = 'i';
  uint64_t to = 0;
  uint64_t count = 0;    // chunks
  int after_block = -1;  // "depid", "deps": a step that must have ended
  int after_step = -1;
};

struct MscclBlock {
  int id = 0;
  int send_to = -1;
  int recv_from = -1;
  int channel = 0;
  std::vector<MscclStep> steps;
};

struct MscclGpu {
  uint64_t scratch_chunks = 0;
  std::vector<MscclBlock> blocks;
};

struct MscclAlgorithm {
  std::string name;
  std::string collective;  // "allreduce", "allgather", "reducescatter", "alltoall", "custom"
  bool in_place = false;   // input and output are one memory
  uint64_t chunks = 0;     // "nchunksperloop": of the larger of input and output
  std::vector<MscclGpu> gpus;
};

// CORRUPT if the text is no XML, has a document type, or is not such an algorithm; buffers and numbers are within what a schedule can have.
absl::StatusOr<MscclAlgorithm> ReadMscclXml(std::string_view text);

}  // namespace weft
