"""Which files a section is made of, and one hash of all of them; needs neither git nor a build.

    sources_hash(("comm/device/*.cc", "tests/gpu/*"), root)    # changes when one of them does, comes or goes
"""
import hashlib


def files_of(patterns, root):
    """Sorted paths, relative to the root."""
    return sorted({path.relative_to(root).as_posix() for pattern in patterns for path in root.glob(pattern)
                   if path.is_file() and "__pycache__" not in path.parts})


def file_hash(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sources_hash(patterns, root):
    made = hashlib.sha256()
    for name in files_of(patterns, root):
        made.update(f"{name} {file_hash(root / name)}\n".encode())
    return made.hexdigest()
