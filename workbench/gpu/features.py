"""What weft does on devices, and what proves it: the rows of docs/gpu.md. A row claims nothing; its cells are found in the tree and in reports.

kernels: which names of tests/device/register_budget.json; tests: which tests of tests/device, that run without a GPU; section and
checks: what a report of ./dev gpu run must have of it.
"""
import collections

Feature = collections.namedtuple("Feature", "name kernels tests section checks")

FEATURES = (
    Feature("reductions of 1 to 64 sources, whole, and in stages of islands", r"weft_(reduce|first|merge)_\w+", r"twin_reduce_test", "kernels",
            ("reduce", "first", "merge")),
    Feature("min_loc, max_loc", r"weft_(min|max)_loc_\w+", r"twin_reduce_test", "kernels", ("located",)),
    Feature("copies with another type and a factor", r"weft_cast_\w+", r"twin_copy_test", "kernels", ("cast",)),
    Feature("many pieces into one and back", r"weft_(gather|scatter)", r"twin_copy_test", "kernels", ("pieces",)),
    Feature("fill with a pattern", r"weft_fill", r"twin_copy_test", "kernels", ("fill",)),
    Feature("sums of squares, count of values that are not finite", r"weft_squares_\w+", r"twin_optimizer_test", "kernels", ("squares",)),
    Feature("AdamW, SGD, Lion, LARS", r"weft_(adamw|sgd|lion|lars)_\w+", r"twin_optimizer_test", "kernels", ("update",)),
    Feature("LAMB", r"weft_lamb_\w+", r"twin_optimizer_test", "kernels", ("lamb",)),
    Feature("digest of device memory", r"weft_digest_\w+", r"twin_digest_test", "kernels", ("digest",)),
    Feature("counts above 2^32", "", "", "kernels", ("large",)),
    Feature("no access out of bounds, no race of threads", "", "", "kernels", ("memcheck", "racecheck")),
    Feature("device memory: allocation, query, registration, DLPack", "", r"device_memory\w*_test|device_heap_test", "memory", ("memory",)),
    Feature("words of memory that streams write and wait for", "", "", "machine", ("stream memory operations",)),
    Feature("device memory of another process, by descriptor", "", "", "machine", ("VMM by descriptor",)),
    Feature("device memory of another process, by CUDA's handles", "", "", "machine", ("cudaIpc",)),
    Feature("memory shared by processes of a node, registered with the driver", "", "", "machine", ("registered memfd",)),
)
