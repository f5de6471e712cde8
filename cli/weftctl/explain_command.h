// `weftctl explain OP BYTES`: prints what weft would do for a call on this machine, and why.
//
//   ExplainOutput output = FormatExplain({.operation = "all_reduce", .bytes = "64K"}, /*json=*/false);
//
// Thread-safety: any thread; may measure the machine, which takes a tenth of a second.
#pragma once

#include <string>

namespace weft {

// The command line.
struct ExplainArguments {
  std::string operation;          // "all_reduce": a collective with one count, without its "weft_"
  std::string bytes;              // "4096", "64K": what the call's count comes to
  int ranks = 2;                  // of one node
  std::string dtype = "float32";  // as weft_dtype_name has it
  bool symmetric = false;         // all buffers are of weft_mem_alloc
};

struct ExplainOutput {
  std::string text;     // empty if there is a problem
  std::string problem;  // a sentence about arguments that make no call; else empty
};

// What weft_explain says of such buffers, sums where it reduces: as it says it, or as JSON.
ExplainOutput FormatExplain(const ExplainArguments& arguments, bool json);

}  // namespace weft
