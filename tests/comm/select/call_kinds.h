// The eight kinds of collectives, as the choice of a protocol and predictions know them.
#pragma once

#include "comm/select/select_protocol.h"

namespace weft::test {

inline constexpr CallFacts kKinds[] = {
    {.reduces = true},
    {.reduces = true, .root_out = true},
    {.reduces = true, .in_blocks = true},
    {.out_blocks = true},
    {.root_out = true, .out_blocks = true},
    {.root_in = true},
    {.root_in = true, .in_blocks = true},
    {.in_blocks = true, .out_blocks = true},
};

}  // namespace weft::test
