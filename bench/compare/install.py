"""Installs the peers: a virtual environment whose pip does it, and one folder per peer below build/compare/peers.

A peer that cannot be installed is named with pip's error; the run goes on without it.
"""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HOME = ROOT / "build" / "compare"
PINS_FILE = pathlib.Path(__file__).with_name("peers.txt")


class InstallFailed(Exception):
    """What could not be installed, and pip's last lines."""


def pins(text=None):
    """{package: "package==version"} of peers.txt."""
    lines = (PINS_FILE.read_text() if text is None else text).splitlines()
    wanted = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return {line.partition("==")[0]: line for line in wanted}


def prefix_of(peer):
    """The folder of a peer: bin, lib and include."""
    return prefix_of_name(peer.name)


def prefix_of_name(name):
    return HOME / "peers" / name


def venv_python():
    return HOME / "venv" / "bin" / "python"


def site_packages(peer):
    """Where a peer's Python packages are."""
    return site_packages_of(peer.name)


def site_packages_of(name):
    return next((prefix_of_name(name) / "lib").glob("python3*/site-packages"), None)


def _run(command, log):
    """Shows the command, then runs it with its output in a file; raises with the last lines when it fails."""
    print("+ " + " ".join(map(str, command)), file=sys.stderr, flush=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w", encoding="utf-8") as out:
        try:
            code = subprocess.call(list(map(str, command)), stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        except OSError as error:
            raise InstallFailed(f"{command[0]}: {error}") from None
    if code:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines[-3:]
        raise InstallFailed(f"exit code {code}: " + " | ".join(errors)[-1000:])


def make_environment():
    """The virtual environment with pip, and with matplotlib if that can be had. Raises InstallFailed."""
    if not venv_python().exists():
        try:
            _run([sys.executable, "-m", "venv", HOME / "venv"], HOME / "log" / "venv.txt")
        except InstallFailed as error:
            raise InstallFailed(f"no virtual environment ({error}); on Debian install python3-venv") from None
    try:
        _install_once("matplotlib", [pins()["matplotlib"]], HOME / "venv" / "matplotlib.pins", [])
    except InstallFailed as error:
        print(f"compare: no plots: matplotlib could not be installed: {error}", file=sys.stderr, flush=True)


def install_peer(peer):
    """Installs a peer's packages into its folder unless they are there; nothing, of a peer that the system has. Raises
    InstallFailed."""
    if not peer.packages:
        return
    prefix = prefix_of(peer)
    _install_once(peer.name, [pins()[name] for name in peer.packages], prefix / "pins",
                  ["--ignore-installed", "--prefix", prefix])


def _install_once(name, wanted, stamp, where):
    if stamp.exists() and stamp.read_text() == "\n".join(wanted):
        return
    _run([venv_python(), "-m", "pip", "install", "--no-input", "--disable-pip-version-check", *where, *wanted],
         HOME / "log" / f"pip-{name}.txt")
    stamp.write_text("\n".join(wanted))
