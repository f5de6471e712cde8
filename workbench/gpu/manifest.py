"""build/gpu/manifest.json: what `./dev gpu build` made, and all that `./dev gpu run` goes by.

    {"schema": 1, "commit", "dirty", "compiler": {"c++", "nvcc"},
     "files": {name in build/gpu: sha256},
     "sections": [{"name", "patterns": [...], "sources": sha256, "steps": [{"name", "program", ...}]}]}    # in the order to run

A manifest that is not of the tree beside it proves nothing, so that is refused.
"""
import json

from workbench.commands import Failure
from workbench.gpu.sources import file_hash, sources_hash

SCHEMA = 1
REFUSED = 2  # exit code
NAME = "manifest.json"


def write(folder, manifest):
    (folder / NAME).write_text(json.dumps(manifest, indent=1) + "\n")


def load(folder):
    path = folder / NAME
    try:
        manifest = json.loads(path.read_text())
    except FileNotFoundError:
        raise Failure(f"gpu: there is no {path}; make it by ./dev gpu build where there is a compiler, and carry that folder along", REFUSED) from None
    except ValueError as error:
        raise Failure(f"gpu: {path} is no manifest ({error}); make it again by ./dev gpu build", REFUSED) from None
    if manifest.get("schema") != SCHEMA:
        raise Failure(f"gpu: {path} has schema {manifest.get('schema')}, wanted {SCHEMA}; make it again by ./dev gpu build", REFUSED)
    return manifest


def check(manifest, folder, root):
    """Refuses a tree or a folder that differs from what was built."""
    for name, wanted in sorted(manifest["files"].items()):
        path = folder / name
        if not path.is_file():
            raise Failure(f"gpu: {path} is not there; carry all of its folder along", REFUSED)
        if file_hash(path) != wanted:
            raise Failure(f"gpu: {path} is not the file that ./dev gpu build made; carry it along again", REFUSED)
    for section in manifest["sections"]:
        found = sources_hash(section["patterns"], root)
        if found != section["sources"]:
            raise Failure(f"gpu: the sources of section {section['name']} in this tree are not those that were built (hash {found[:12]}, manifest "
                          f"{section['sources'][:12]}); build again by ./dev gpu build", REFUSED)
