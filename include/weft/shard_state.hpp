// The state of a shard context for C++17; see shard_state.h.
//
//   for (const weft_shard_state_kind_t kind : {WEFT_SHARD_STATE_VALUE, WEFT_SHARD_STATE_MAIN, ...}) {
//     const weft_shard_state_part_t part = weft::StatePart(param, kind);
//     ... read part.count elements from element part.begin of the param on to part.data ...
//   }
//   weft::StateWritten(context);
//
// Order of calls, collective calls, errors and the thread rule are as in shard_state.h.
#ifndef WEFT_SHARD_STATE_HPP_
#define WEFT_SHARD_STATE_HPP_

#include <cstddef>
#include <cstdint>

#include "weft/shard.hpp"
#include "weft/shard_state.h"

namespace weft {
inline namespace interface_0 {

// Where this rank keeps that state of the param, and which of it it is to write.
inline weft_shard_state_part_t StatePart(const ShardParam& param, weft_shard_state_kind_t kind) {
  return internal::Filled<weft_shard_state_part_t>(weft_shard_state_part, param.get(), kind);
}

// Elements [begin, begin + count) of the param, of this rank's part, wherever that is.
inline void ReadState(const ShardParam& param, weft_shard_state_kind_t kind, std::size_t begin,
                      std::size_t count, void* to) {
  Check(weft_shard_state_read(param.get(), kind, begin, count, to));
}

// The same from `from`; say so with StateWritten afterwards.
inline void WriteState(const ShardParam& param, weft_shard_state_kind_t kind, std::size_t begin,
                       std::size_t count, const void* from) {
  Check(weft_shard_state_write(param.get(), kind, begin, count, from));
}

// The numbers that belong to no param.
inline weft_shard_state_scalars_t StateScalars(const ShardContext& context) {
  return internal::Filled<weft_shard_state_scalars_t>(weft_shard_state_scalars_get, context.get());
}

// Goes on from these.
inline void SetStateScalars(const ShardContext& context,
                            const weft_shard_state_scalars_t& scalars) {
  Check(weft_shard_state_scalars_set(context.get(), &scalars));
}

// This rank's parts of all params were written, of these kinds. Collective.
inline void StateWritten(const ShardContext& context, std::uint32_t kinds = WEFT_SHARD_STATE_ALL,
                         void* stream = nullptr) {
  Check(weft_shard_state_written(context.get(), kinds, stream));
}

}  // namespace interface_0
}  // namespace weft

#endif  // WEFT_SHARD_STATE_HPP_
