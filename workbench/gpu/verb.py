"""The arguments of `./dev gpu`."""
import argparse
import pathlib

from workbench.commands import ROOT
from workbench.gpu.build import SECONDS, build
from workbench.gpu.run import run
from workbench.gpu.sections import NAMES
from workbench.gpu.status import status

FOLDER = ROOT / "build" / "gpu"


def parser():
    result = argparse.ArgumentParser(prog="./dev gpu", description="Proves on a machine with a GPU what a machine without one cannot.")
    verbs = result.add_subparsers(required=True, metavar="VERB")

    def verb(name, action, text):
        added = verbs.add_parser(name, help=text, description=text)
        added.set_defaults(action=action)
        return added

    for name, action, text in (("build", build, "fill build/gpu, which is carried to the machine with a GPU"),
                               ("run", run, "run what build/gpu has on all devices of this machine; exit code 77: there is none")):
        added = verb(name, action, text)
        added.add_argument("--folder", type=lambda text: pathlib.Path(text).resolve(), default=FOLDER, metavar="DIR", help="default build/gpu")
        if name == "run":
            added.add_argument("--seconds", type=float, default=SECONDS, metavar="S", help=f"how long at most; default {SECONDS}")
            added.add_argument("--only", action="append", choices=NAMES, help="this section alone; may be given again")
            added.add_argument("--out", type=lambda text: pathlib.Path(text).resolve(), default=ROOT / "build" / "gpu-report", metavar="DIR",
                               help="where the report goes; default build/gpu-report")
    verb("status", status, "which sections have a report that stands, and which are pending")
    return result


def gpu(arguments):
    options = parser().parse_args(arguments)
    options.action(options)
