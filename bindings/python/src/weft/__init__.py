"""weft: collectives between processes, for Python.

    import weft
    with weft.init() as world:                 # under weftrun, torchrun, mpiexec, Slurm; alone: one rank
        world.all_reduce(array, op="sum")      # in place; numpy, torch on the CPU, array, bytearray...
        work = world.all_gather(part, whole, async_op=True)
        work.wait()

docs/python.md has the rules. Importing this imports neither numpy nor torch nor asyncio.
"""
from __future__ import annotations

from weft._capi import WEFT_VERSION_STRING as __version__
from weft.core.arrays import Array, zeros
from weft.core.batch import Batch, batch
from weft.core.bound import Bound
from weft.core.communicator import Communicator, init
from weft.core.config import show_config
from weft.core.devices import DeviceArray, DeviceInfo, device_count, device_info, device_zeros
from weft.core.errors import Error, Result
from weft.core.members import NEW_RANK
from weft.core.memory import MemoryInfo, MemoryKind, Registration, query, register
from weft.core.operations import ANY_SOURCE
from weft.core.probes import ANY_TAG, Probed
from weft.core.reductions import Reduction
from weft.core.reports import Stats
from weft.core.shared import SharedArray
from weft.core.stores import Store, UniqueId
from weft.core.types import DType, Op
from weft.core.work import Work

__all__ = ["ANY_SOURCE", "ANY_TAG", "Array", "Batch", "Bound", "Communicator", "DType", "DeviceArray", "DeviceInfo", "Error", "MemoryInfo", "MemoryKind", "NEW_RANK", "Op",
           "Probed", "Reduction", "Registration", "Result", "SharedArray", "Stats", "Store", "UniqueId", "Work", "__version__", "batch", "device_count", "device_info",
           "device_zeros", "init", "query", "register", "show_config", "zeros"]
