"""Programs of JAX as ranks: tests/python/ranks.py with JAX's packages, which are not for all tests.

    class Order(JaxTest):
        def test_it(self):
            self.run_ranks(2, "say(wjax.all_reduce(jnp.ones(3), world))")    # jax, jnp, np, weft, wjax, world and say are there

    if __name__ == "__main__":
        main()      # arguments: weftrun, libweft.so, the folder of JAX's packages; skipped if that is not there
"""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import ranks  # noqa: E402
from ranks import ROOT, launched  # noqa: E402,F401

launched.DEADLINE_S = 240  # compiling takes seconds, and more where other programs run
ALL_SIZES = (1, 2, 3)
_HERE = str(pathlib.Path(__file__).resolve().parent)
_START = f"""\
import os, signal, sys, threading, time
sys.path.insert(0, {_HERE!r})
os.environ["JAX_PLATFORMS"] = "cpu"
import numpy as np
import jax, jax.numpy as jnp
import weft, weft.jax as wjax
def say(*words): print(*words, flush=True)
world = weft.init(timeout=30)
rank, size = world.rank, world.size
"""


def sizes(*sample):
    """How many ranks: all with --all-cases, which takes minutes of compiling, and else a sample."""
    return ALL_SIZES if os.environ.get("TEST_CASES") == "all" else sample


class JaxTest(ranks.RanksTest):
    maxDiff = None

    def launch_ranks(self, count, code, *options, start=_START):
        return super().launch_ranks(count, code, *options, start=start)

    def run_ranks(self, count, code, *options, start=_START):
        return super().run_ranks(count, code, *options, start=start)


def main():
    ranks.take_arguments()
    if not ranks.has_packages():
        print("JAX is not installed: ./dev test jax does it")
        sys.exit(ranks.SKIPPED)
    ranks.main()
