"""What a run has left: its numbers step by step, and every tensor of its last checkpoint.

    outcome = read_outcome(folder, steps=20, validated_every=10)
    outcome.steps[0]["loss"]                         # the very double, or None: it was no number
    outcome.tensors["wte@value"].sha256
    outcome.digest()                                 # one hash of all of it

Tensors are by name and state as docs/formats/checkpoint.md calls them: value, main, moment1,
moment2. Where they are cut does not show.

Errors: Unreadable, with a sentence. Thread-safety: values, which nobody changes.
"""
import array
import dataclasses
import hashlib
import json
import re
import struct
import sys

# Of metrics.jsonl what must be the same; the others are times.
SERIES = ("loss", "grad_norm", "loss_max", "val_loss", "skipped", "loss_scale")
_ENTRY = re.compile(r"(.+)@(\w+)\[(\d+):(\d+)\)")
_CHECKPOINT = re.compile(r"step-(\d{8})(?:\.r(\d+))?")
_ELEMENT_BYTES = {"F32": 4, "BF16": 2, "F16": 2}
_HEADER_BYTES_MAX = 100_000_000


class Unreadable(Exception):
    """What a run has left is not what a whole run leaves."""


@dataclasses.dataclass(frozen=True)
class Tensor:
    dtype: str  # F32, BF16 or F16
    data: bytes  # little-endian

    @property
    def sha256(self):
        return hashlib.sha256(self.dtype.encode() + b" " + self.data).hexdigest()

    def numbers(self):
        """As doubles, each exact."""
        if self.dtype == "F16":
            return struct.unpack(f"<{len(self.data) // 2}e", self.data)
        data = self.data
        if self.dtype == "BF16":  # the upper half of a float32
            wide = bytearray(2 * len(data))
            wide[2::4], wide[3::4] = data[0::2], data[1::2]
            data = bytes(wide)
        found = array.array("f", data)
        if sys.byteorder == "big":
            found.byteswap()
        return found


@dataclasses.dataclass(frozen=True)
class Outcome:
    steps: tuple  # a dict per step, of what SERIES it has
    tensors: dict  # {"name@state": Tensor}

    def tensor_hashes(self):
        return {name: tensor.sha256 for name, tensor in sorted(self.tensors.items())}

    def digest(self):
        """Equal for equal bits: 64 hexadecimal digits."""
        text = json.dumps([self.steps, self.tensor_hashes()])
        return hashlib.sha256(text.encode()).hexdigest()


def read_outcome(folder, steps, validated_every):
    """Of the folder of a run of weft_train, which has saved after its last step."""
    lines = _metrics(folder / "metrics.jsonl", validated_every)
    return Outcome(tuple(lines), _tensors(_last_checkpoint(folder / "checkpoints", steps)))


def _metrics(path, validated_every):
    """Each step once and in order, up to the last one. Validations of other steps are left out: a
    run that ends early makes one then, and so may ranks that go on without a lost one."""
    try:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path.name} cannot be read: {error}") from None
    numbers = [line.get("step") for line in lines]
    if numbers != list(range(1, len(lines) + 1)):
        raise Unreadable(f"{path.name} has the steps {numbers}, not 1 to {len(lines)}")
    return [{name: line[name] for name in SERIES
             if name in line and (name != "val_loss" or line["step"] % validated_every == 0)}
            for line in lines]


def _last_checkpoint(folder, step):
    found = [(int(match[2] or 0), int(match[1]), path)
             for path in (folder.iterdir() if folder.is_dir() else ())
             for match in [_CHECKPOINT.fullmatch(path.name)]
             if match and (path / "manifest.json").exists()]
    if not found or max(found)[1] != step:
        raise Unreadable(f"there is no checkpoint of step {step}, but of "
                         f"{', '.join(sorted(path.name for _, _, path in found)) or 'no step'}")
    return max(found)[2]


def _tensors(checkpoint):
    """All ranks' intervals, put together."""
    shapes = {entry["name"]: entry["shape"]
              for entry in json.loads((checkpoint / "manifest.json").read_text())["tensors"]}
    parts = {}
    for path in sorted(checkpoint.glob("rank-*.safetensors")):
        for name, state, begin, dtype, data in _entries(path):
            parts.setdefault((name, state, dtype), []).append((begin, data))
    found = {f"{name}@{state}": Tensor(dtype, _joined(f"{name}@{state}", dtype, pieces))
             for (name, state, dtype), pieces in parts.items()}
    for name, shape in shapes.items():
        count = 1
        for rows in shape:
            count *= rows
        value = found.get(f"{name}@value")
        if value is None or len(value.data) != count * _ELEMENT_BYTES[value.dtype]:
            raise Unreadable(f"{checkpoint.name} has not all {count} values of {name}")
    return found


def _entries(path):
    data = path.read_bytes()
    size, = struct.unpack_from("<Q", data)
    if size > min(len(data) - 8, _HEADER_BYTES_MAX):
        raise Unreadable(f"{path.name} is no safetensors file")
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        match = _ENTRY.fullmatch(name)
        if match is None or entry["dtype"] not in _ELEMENT_BYTES:
            raise Unreadable(f"{path.name} has {name} of {entry['dtype']}, which is no param's")
        begin, end = entry["data_offsets"]
        yield match[1], match[2], int(match[3]), entry["dtype"], data[8 + size + begin:
                                                                      8 + size + end]


def _joined(name, dtype, pieces):
    whole = bytearray()
    for begin, data in sorted(pieces):
        if begin * _ELEMENT_BYTES[dtype] != len(whole):
            raise Unreadable(f"{name} has a hole or an overlap at element {begin}")
        whole += data
    return bytes(whole)
