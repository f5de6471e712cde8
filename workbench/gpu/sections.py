"""What a machine with a GPU is to prove, section by section: the one table of them.

A section is programs, its steps, that run one after another; each step has a limit of time of its own. Its sources are what it proves and
what proves it: once they have changed, the last report says nothing about it.
"""
import collections

# program: a file of build/gpu, or a name of TOOLS for one of the machine; tests: instead, the tests of GoogleTest whose names match, in
# programs of the build, but none of those that steer the fake driver: on a real one they have nothing to steer. reads: how its output is read (lines.py). check: what its cases count as, unless its lines say so.
Step = collections.namedtuple("Step", "name program arguments seconds reads check tool tests", defaults=("lines", "", "", ""))
Section = collections.namedtuple("Section", "name sources steps")

# Which file of the machine a step's `tool` is; what a machine has not got is named as not run.
TOOLS = {"compute-sanitizer": ("compute-sanitizer", "/usr/local/cuda/bin/compute-sanitizer")}

# Beside its sources a section depends on how the driver is called, and on how kernels are compiled.
_DRIVER = ("comm/device/driver/*", "base/module*")
_KERNELS = ("comm/device/*.cc", "comm/device/*.h", "comm/device/element/*", "comm/device/kernels/*", "comm/device/module/*",
            "comm/kernels/conversions.h", "shard/optimizer/device/*", "shard/optimizer/optimizer_arguments.h", "cmake/cuda*")


def _sanitized(tool):
    return Step(tool, "gpu_kernels", ("--sample",), 40, "sanitizer", tool, "compute-sanitizer")


# In the order in which they run, as long as nothing is known of them (reports.py).
SECTIONS = (
    Section("machine", (*_DRIVER, "tests/gpu/*.h", "tests/gpu/machine*", "tests/gpu/peer_process*", "tests/gpu/gpu_device*", "comm/device/kernel_library*"), (
        Step("versions", "versions.py", (), 10),
        Step("machine", "gpu_machine", (), 30),
    )),
    Section("memory", (*_DRIVER, "comm/device/memory/*", "bindings/c/mem*", "bindings/c/dlpack*", "bindings/c/device*", "tests/device/device_memory_test*",
                        "tests/device/device_memory_kinds*", "tests/device/device_fixture*", "tests/device/driver_calls*"), (
        Step("memory", "", (), 30, "gtest", "memory", "", r"device_memory_test"),
    )),
    Section("kernels", (*_DRIVER, *_KERNELS, "tests/device/*twin*", "tests/gpu/*.h", "tests/gpu/kernel*", "tests/gpu/gpu_device*",
                        "tests/comm/kernels/reference*", "shard/optimizer/optimizer_step*"), (
        Step("bits", "gpu_kernels", ("--bits",), 60),
        Step("figures", "gpu_kernels", ("--figures",), 30),
        Step("large", "gpu_kernels", ("--large",), 30),
        _sanitized("memcheck"),
        _sanitized("racecheck"),
    )),
)
NAMES = tuple(section.name for section in SECTIONS)
