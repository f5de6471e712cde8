// The part of the C interface of XLA's FFI that handlers need, declared anew: XLA's own header would have them claim its version, which older
// releases of XLA refuse. This layout is that of versions 0.1 to 0.3 (jaxlib 0.5.0 to 0.10.2), and 0.1 is what handlers say they speak; XLA promises to
// accept a version for at least a year.
//
// Source: xla/ffi/api/c_api.h of OpenXLA.
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/xla.h"

namespace weft::xla {

inline constexpr int kVersionMajor = 0;
inline constexpr int kVersionMinor = 1;

struct Extension {
  size_t struct_size;
  int type;
  Extension* next;
};

// Asks a handler which version it speaks, instead of running it. The frame's `api` may be NULL then.
inline constexpr int kMetadataExtension = 1;

struct Version {
  size_t struct_size;
  Extension* extensions;
  int major;
  int minor;
};

// What follows in later versions is not ours to write.
struct Metadata {
  size_t struct_size;
  Version version;
  uint32_t traits;
};

struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

// Element types; xla::PrimitiveType has the same numbers.
enum class ElementType : int32_t {
  kPred = 1,
  kS8 = 2,
  kS16 = 3,
  kS32 = 4,
  kS64 = 5,
  kU8 = 6,
  kU16 = 7,
  kU32 = 8,
  kU64 = 9,
  kF16 = 10,
  kF32 = 11,
  kF64 = 12,
  kC64 = 15,
  kBF16 = 16,
  kToken = 17,
  kC128 = 18,
  kF8E5M2 = 19,
  kF8E4M3FN = 20,
  kF8E4M3B11FNUZ = 23,
  kF8E5M2FNUZ = 24,
  kF8E4M3FNUZ = 25,
  kF8E4M3 = 28,
  kF8E3M4 = 29,
  kF8E8M0FNU = 33,
};

struct Buffer {
  size_t struct_size;
  Extension* extensions;
  ElementType type;
  void* data;
  int64_t rank;
  int64_t* dims;  // [rank]
};

inline constexpr int kBufferKind = 1;

// Operands or results.
struct Buffers {
  size_t struct_size;
  Extension* extensions;
  int64_t size;
  int* kinds;    // [size], all kBufferKind
  void** items;  // [size], each a Buffer
};

struct Span {
  const char* data;
  size_t size;
};

struct Scalar {
  ElementType type;
  void* value;
};

inline constexpr int kScalarKind = 3;

struct Attributes {
  size_t struct_size;
  Extension* extensions;
  int64_t size;
  int* kinds;    // [size]
  Span** names;  // [size], sorted
  void** items;  // [size], a Scalar where the kind is kScalarKind
};

struct ErrorArguments {
  size_t struct_size;
  Extension* extensions;
  const char* message;  // copied
  int code;             // as absl's status codes
};

struct Api {
  size_t struct_size;
  Extension* extensions;
  Version version;
  const void* internal;
  XLA_FFI_Error* (*create_error)(ErrorArguments*);
  // More, which handlers here do not call.
};

inline constexpr int kExecuteStage = 3;

}  // namespace weft::xla

struct XLA_FFI_CallFrame {
  size_t struct_size;
  weft::xla::Extension* extensions;
  const weft::xla::Api* api;
  void* context;
  int stage;
  weft::xla::Buffers operands;
  weft::xla::Buffers results;
  weft::xla::Attributes attributes;
  // And a future in later versions, which may be left as it is.
};
