"""Prints which NCCL and which torch the machine has, as lines of a section; loads torch's NCCL but not torch."""
import ctypes
import importlib.metadata
import json
import pathlib


def say(fact, value):
    print(json.dumps({"fact": fact, "value": value}), flush=True)


def nccl_files():
    """Where the loader looks, then where pip puts torch's."""
    files = ["libnccl.so.2"]
    for name in ("nvidia-nccl-cu13", "nvidia-nccl-cu12"):
        try:
            files += [str(pathlib.Path(one.locate())) for one in importlib.metadata.files(name) or () if one.name == "libnccl.so.2"]
        except importlib.metadata.PackageNotFoundError:
            pass
    return files


def nccl_version(file):
    version = ctypes.c_int()
    code = ctypes.CDLL(file).ncclGetVersion(ctypes.byref(version))
    if code != 0:
        raise OSError(f"ncclGetVersion says {code}")
    return f"{version.value // 10000}.{version.value // 100 % 100}.{version.value % 100}"


def main():
    try:
        say("torch", importlib.metadata.version("torch"))
    except importlib.metadata.PackageNotFoundError:
        say("torch", None)
    found = {}
    for file in nccl_files():
        try:
            found["pip" if "/" in file else "system"] = nccl_version(file)
        except (OSError, AttributeError):
            continue
    for where in ("system", "pip"):
        say(f"nccl.{where}", found.get(where))


if __name__ == "__main__":
    main()
