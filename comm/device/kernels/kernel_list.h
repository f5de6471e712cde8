// The kernels of comm/device by name, once for nvcc, which makes them, for the host, which launches them, and for their twins (tests/device).
//
//   #define WEFT_DEFINE(name, E, Op, kSources, Out) ...
//   WEFT_REDUCE_FLOAT32_KERNELS(WEFT_DEFINE)
//
// A reduction's name is weft_reduce_TYPE_OPERATION_SOURCES, SOURCES a number or `any`; of the first stage of a reduction of a narrow
// type, weft_first_TYPE_OPERATION_SOURCES. The tree is unrolled for the counts that are common:
// of the types that are trained in for all operations, and for their sums for every count up to eight; of other types for sums. All of
// that for all types takes twice the time to compile and twice the room.
// Integers wrap, so sums, products and premul_sum of signed types are those of unsigned ones.
#pragma once

// clang-format off
#define WEFT_REDUCE_FEW(X, prefix, E, op, Op, Out) \
  X(prefix##op##_2, E, Op, 2, Out)                 \
  X(prefix##op##_4, E, Op, 4, Out)                 \
  X(prefix##op##_8, E, Op, 8, Out)                 \
  X(prefix##op##_any, E, Op, 0, Out)

#define WEFT_REDUCE_EACH(X, prefix, E, op, Op, Out) \
  WEFT_REDUCE_FEW(X, prefix, E, op, Op, Out)        \
  X(prefix##op##_3, E, Op, 3, Out)                  \
  X(prefix##op##_5, E, Op, 5, Out)                  \
  X(prefix##op##_6, E, Op, 6, Out)                  \
  X(prefix##op##_7, E, Op, 7, Out)

#define WEFT_REDUCE_ANY(X, prefix, E, op, Op, Out) \
  X(prefix##op##_any, E, Op, 0, Out)

// float32, bfloat16 and float16, which are what is trained in.
#define WEFT_REDUCE_COMMON(X, prefix, E)                  \
  WEFT_REDUCE_EACH(X, prefix, E, sum, Sum, E)             \
  WEFT_REDUCE_FEW(X, prefix, E, prod, Product, E)         \
  WEFT_REDUCE_FEW(X, prefix, E, max, Maximum, E)          \
  WEFT_REDUCE_FEW(X, prefix, E, min, Minimum, E)          \
  WEFT_REDUCE_FEW(X, prefix, E, avg, Average, E)          \
  WEFT_REDUCE_FEW(X, prefix, E, premul_sum, ScaledSum, E)

#define WEFT_REDUCE_RARE(X, prefix, E)                    \
  WEFT_REDUCE_FEW(X, prefix, E, sum, Sum, E)              \
  WEFT_REDUCE_ANY(X, prefix, E, prod, Product, E)         \
  WEFT_REDUCE_ANY(X, prefix, E, max, Maximum, E)          \
  WEFT_REDUCE_ANY(X, prefix, E, min, Minimum, E)          \
  WEFT_REDUCE_ANY(X, prefix, E, avg, Average, E)          \
  WEFT_REDUCE_ANY(X, prefix, E, premul_sum, ScaledSum, E)

#define WEFT_FIRST_RARE(X, prefix, E)                           \
  WEFT_REDUCE_ANY(X, prefix, E, sum, Sum, Float32)              \
  WEFT_REDUCE_ANY(X, prefix, E, prod, Product, Float32)         \
  WEFT_REDUCE_ANY(X, prefix, E, premul_sum, ScaledSum, Float32)

#define WEFT_FIRST_COMMON(X, prefix, E)    \
  WEFT_FIRST_RARE(X, prefix, E)            \
  X(prefix##sum_2, E, Sum, 2, Float32)     \
  X(prefix##sum_4, E, Sum, 4, Float32)     \
  X(prefix##sum_8, E, Sum, 8, Float32)

#define WEFT_REDUCE_FLOAT32_KERNELS(X) WEFT_REDUCE_COMMON(X, weft_reduce_float32_, Float32)
#define WEFT_REDUCE_FLOAT64_KERNELS(X) WEFT_REDUCE_RARE(X, weft_reduce_float64_, Float64)
#define WEFT_REDUCE_FLOAT16_KERNELS(X)                  \
  WEFT_REDUCE_COMMON(X, weft_reduce_float16_, Float16)  \
  WEFT_FIRST_COMMON(X, weft_first_float16_, Float16)
#define WEFT_REDUCE_BFLOAT16_KERNELS(X)                   \
  WEFT_REDUCE_COMMON(X, weft_reduce_bfloat16_, Bfloat16)  \
  WEFT_FIRST_COMMON(X, weft_first_bfloat16_, Bfloat16)
#define WEFT_REDUCE_FLOAT8_E4M3_KERNELS(X)                   \
  WEFT_REDUCE_RARE(X, weft_reduce_float8_e4m3_, Float8E4m3)  \
  WEFT_FIRST_RARE(X, weft_first_float8_e4m3_, Float8E4m3)
#define WEFT_REDUCE_FLOAT8_E5M2_KERNELS(X)                   \
  WEFT_REDUCE_RARE(X, weft_reduce_float8_e5m2_, Float8E5m2)  \
  WEFT_FIRST_RARE(X, weft_first_float8_e5m2_, Float8E5m2)

#define WEFT_REDUCE_WRAPPING(X, prefix, E)                \
  WEFT_REDUCE_FEW(X, prefix, E, sum, Sum, E)              \
  WEFT_REDUCE_ANY(X, prefix, E, prod, Product, E)         \
  WEFT_REDUCE_ANY(X, prefix, E, premul_sum, ScaledSum, E)

#define WEFT_REDUCE_ORDERED(X, prefix, E)         \
  WEFT_REDUCE_ANY(X, prefix, E, max, Maximum, E)  \
  WEFT_REDUCE_ANY(X, prefix, E, min, Minimum, E)  \
  WEFT_REDUCE_ANY(X, prefix, E, avg, Average, E)

#define WEFT_REDUCE_BITS(X, prefix, E)              \
  WEFT_REDUCE_ANY(X, prefix, E, bit_and, BitAnd, E) \
  WEFT_REDUCE_ANY(X, prefix, E, bit_or, BitOr, E)   \
  WEFT_REDUCE_ANY(X, prefix, E, bit_xor, BitXor, E)

#define WEFT_REDUCE_INTEGER_KERNELS(X)                \
  WEFT_REDUCE_WRAPPING(X, weft_reduce_uint8_, Uint8)   \
  WEFT_REDUCE_WRAPPING(X, weft_reduce_uint32_, Uint32) \
  WEFT_REDUCE_WRAPPING(X, weft_reduce_uint64_, Uint64) \
  WEFT_REDUCE_ORDERED(X, weft_reduce_int8_, Int8)      \
  WEFT_REDUCE_ORDERED(X, weft_reduce_uint8_, Uint8)    \
  WEFT_REDUCE_ORDERED(X, weft_reduce_int32_, Int32)    \
  WEFT_REDUCE_ORDERED(X, weft_reduce_uint32_, Uint32)  \
  WEFT_REDUCE_ORDERED(X, weft_reduce_int64_, Int64)    \
  WEFT_REDUCE_ORDERED(X, weft_reduce_uint64_, Uint64)  \
  WEFT_REDUCE_BITS(X, weft_reduce_uint8_, Uint8)       \
  WEFT_REDUCE_BITS(X, weft_reduce_uint32_, Uint32)     \
  WEFT_REDUCE_BITS(X, weft_reduce_uint64_, Uint64)     \
  WEFT_REDUCE_BITS(X, weft_reduce_bool_, Bool)

#define WEFT_REDUCE_KERNELS(X)        \
  WEFT_REDUCE_FLOAT32_KERNELS(X)      \
  WEFT_REDUCE_FLOAT64_KERNELS(X)      \
  WEFT_REDUCE_FLOAT16_KERNELS(X)      \
  WEFT_REDUCE_BFLOAT16_KERNELS(X)     \
  WEFT_REDUCE_FLOAT8_E4M3_KERNELS(X)  \
  WEFT_REDUCE_FLOAT8_E5M2_KERNELS(X)  \
  WEFT_REDUCE_INTEGER_KERNELS(X)

// weft_merge_OPERATION_TYPE: accumulators into the type.
#define WEFT_MERGE_OF(X, op, Op)                            \
  X(weft_merge_##op##_float32, Float32, Op, Float32)         \
  X(weft_merge_##op##_float16, Float32, Op, Float16)         \
  X(weft_merge_##op##_bfloat16, Float32, Op, Bfloat16)       \
  X(weft_merge_##op##_float8_e4m3, Float32, Op, Float8E4m3)  \
  X(weft_merge_##op##_float8_e5m2, Float32, Op, Float8E5m2)  \
  X(weft_merge_##op##_float64, Float64, Op, Float64)

#define WEFT_MERGE_KERNELS(X)      \
  WEFT_MERGE_OF(X, sum, Sum)       \
  WEFT_MERGE_OF(X, prod, Product)  \
  WEFT_MERGE_OF(X, avg, Average)

#define WEFT_LOCATED_OF(X, type, E)        \
  X(weft_min_loc_##type, E, true)          \
  X(weft_max_loc_##type, E, false)

#define WEFT_LOCATED_KERNELS(X)                \
  WEFT_LOCATED_OF(X, int8, Int8)               \
  WEFT_LOCATED_OF(X, uint8, Uint8)             \
  WEFT_LOCATED_OF(X, int32, Int32)             \
  WEFT_LOCATED_OF(X, uint32, Uint32)           \
  WEFT_LOCATED_OF(X, int64, Int64)             \
  WEFT_LOCATED_OF(X, uint64, Uint64)           \
  WEFT_LOCATED_OF(X, float16, Float16)         \
  WEFT_LOCATED_OF(X, float32, Float32)         \
  WEFT_LOCATED_OF(X, float64, Float64)         \
  WEFT_LOCATED_OF(X, bfloat16, Bfloat16)       \
  WEFT_LOCATED_OF(X, float8_e4m3, Float8E4m3)  \
  WEFT_LOCATED_OF(X, float8_e5m2, Float8E5m2)

#define WEFT_CAST_FROM(X, in, In)                        \
  X(weft_cast_##in##_float32, In, Float32)               \
  X(weft_cast_##in##_float64, In, Float64)               \
  X(weft_cast_##in##_float16, In, Float16)               \
  X(weft_cast_##in##_bfloat16, In, Bfloat16)             \
  X(weft_cast_##in##_float8_e4m3, In, Float8E4m3)        \
  X(weft_cast_##in##_float8_e5m2, In, Float8E5m2)

#define WEFT_CAST_KERNELS(X)                  \
  WEFT_CAST_FROM(X, float32, Float32)         \
  WEFT_CAST_FROM(X, float64, Float64)         \
  WEFT_CAST_FROM(X, float16, Float16)         \
  WEFT_CAST_FROM(X, bfloat16, Bfloat16)       \
  WEFT_CAST_FROM(X, float8_e4m3, Float8E4m3)  \
  WEFT_CAST_FROM(X, float8_e5m2, Float8E5m2)

#define WEFT_SQUARES_KERNELS(X)      \
  X(weft_squares_float32, Float32)   \
  X(weft_squares_float64, Float64)   \
  X(weft_squares_float16, Float16)   \
  X(weft_squares_bfloat16, Bfloat16)
// clang-format on
