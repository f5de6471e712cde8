"""What collectives compute, slowly and plainly, and numbers as the bytes of each element type.

Values are small whole numbers, which every type has exactly; sums and products of a few stay so.
"""
import functools
import struct

_PLAIN = {"int8": "b", "uint8": "B", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q", "float16": "e", "float32": "f", "float64": "d", "bool": "?"}
INTEGERS = ("int8", "uint8", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "float32", "float64", "bfloat16", "float8_e4m3", "float8_e5m2")
DTYPES = (*INTEGERS, *FLOATS, "bool")


def _float8(byte, mantissa_bits, bias):
    sign = -1 if byte & 0x80 else 1
    exponent, mantissa = (byte & 0x7f) >> mantissa_bits, byte & ((1 << mantissa_bits) - 1)
    scale = 2.0 ** (max(exponent, 1) - bias - mantissa_bits)
    return sign * scale * (mantissa + ((1 << mantissa_bits) if exponent else 0))


@functools.lru_cache(None)
def _float8_values(mantissa_bits, bias):
    return [_float8(byte, mantissa_bits, bias) for byte in range(256)]


_FLOAT8 = {"float8_e4m3": (3, 7), "float8_e5m2": (2, 15)}


def encode(values, dtype):
    if dtype in _PLAIN:
        return struct.pack(f"{len(values)}{_PLAIN[dtype]}", *(bool(value) if dtype == "bool" else int(value) if dtype in INTEGERS else value for value in values))
    if dtype == "bfloat16":
        return b"".join(struct.pack("f", value)[2:] for value in values)
    known = _float8_values(*_FLOAT8[dtype])
    return bytes(known.index(value) for value in values)


def decode(data, dtype):
    data = bytes(data)
    if dtype in _PLAIN:
        return [int(value) if dtype == "bool" else value for value in struct.unpack(f"{len(data) // struct.calcsize(_PLAIN[dtype])}{_PLAIN[dtype]}", data)]
    if dtype == "bfloat16":
        return [struct.unpack("f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    return [_float8_values(*_FLOAT8[dtype])[byte] for byte in data]


def item_bytes(dtype):
    return len(encode([0], dtype))


def reduced(op, dtype, columns):
    """One value of each list of one value per rank."""
    boolean = dtype == "bool"
    functions = {
        "sum": any if boolean else sum, "prod": all if boolean else lambda column: functools.reduce(lambda a, b: a * b, column),
        "max": max, "min": min, "avg": lambda column: int(sum(column) / len(column)) if dtype in INTEGERS else sum(column) / len(column),
        "bit_and": lambda column: functools.reduce(lambda a, b: a & b, column), "bit_or": lambda column: functools.reduce(lambda a, b: a | b, column),
        "bit_xor": lambda column: functools.reduce(lambda a, b: a ^ b, column),
    }
    return [functions[op](list(column)) + 0 for column in columns]


def ops_of(dtype, ranks):
    """Which of them the type has, and whose results it has exactly."""
    ops = ["sum", "prod", "max", "min"]
    if dtype in INTEGERS or dtype == "bool":
        ops += ["bit_and", "bit_or", "bit_xor"]
    if dtype != "bool" and (dtype in INTEGERS or ranks in (1, 2)):
        ops.append("avg")
    return ops
