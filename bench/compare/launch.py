"""How each library's driver is compiled and started."""
import os
import shlex
import subprocess
import sys

from bench.compare import install

DRIVER = install.ROOT / "bench" / "compare" / "driver"
_LOOP = ("buffers", "calls", "command", "driver", "values")
# What other launchers, or a shell that was set up for one, would say to a library.
_FOREIGN = ("OMPI_", "OPAL_", "PRTE_", "PMIX_", "PMI_", "MPI", "I_MPI_", "CCL_", "FI_", "UCX_", "SLURM_", "HYDRA_", "WEFT_",
            "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "OMP_", "GLOO_", "LD_LIBRARY_PATH", "PYTHON")


class CompileFailed(Exception):
    """The compiler's last lines."""


def compile_driver(peer):
    """Compiles the driver of a peer against what is installed, when it is older than its sources."""
    if peer.name == "gloo":
        return
    prefix = install.prefix_of(peer)
    program = program_of(peer)
    source = DRIVER / {"oneccl": "oneccl_driver.cc", "ucx": "ucx_driver.c"}.get(peer.name, "mpi_driver.c")
    sources = [source, *(DRIVER / f"{name}.c" for name in _LOOP)]
    installed = [prefix / "pins"] if peer.packages else []
    newest = max(path.stat().st_mtime for path in [*sources, *DRIVER.glob("*.h"), *installed])
    if program.exists() and program.stat().st_mtime > newest:
        return
    program.parent.mkdir(parents=True, exist_ok=True)
    flags = ["-O2", "-g1", f"-I{install.ROOT}", f"-I{prefix / 'include'}"]
    objects = []
    for path in sources:
        objects.append(program.parent / f"{program.name}-{path.stem}.o")
        language = ["g++", "-std=c++17"] if path.suffix == ".cc" else ["gcc", "-std=gnu11"]
        _compile([*language, *flags, "-c", "-o", objects[-1], path])
    libraries = {"oneccl": ["-lccl"], "ucx": ["-lucp", "-lucs"]}.get(peer.name, ["-lmpi"])
    _compile(["g++" if peer.name == "oneccl" else "gcc", "-o", program, *objects, f"-L{prefix / 'lib'}",
              f"-Wl,-rpath,{prefix / 'lib'}", *libraries])


def prepare(wanted, report):
    """Those of the peers that could be installed and built; report(peer's name, sentence) is told of the others."""
    usable = []
    install.make_environment()
    for peer in wanted:
        try:
            install.install_peer(peer)
            compile_driver(peer)
            usable.append(peer)
        except (install.InstallFailed, CompileFailed) as error:
            report(peer.name, f"takes no part: {error}")
    return usable


def program_of(peer):
    return program_of_name(peer.name)


def program_of_name(name):
    return install.HOME / "bin" / f"compare_{name}"


def environment_for(ranks):
    """This environment without what a launcher or library would take for itself, and with a core for each rank if there are
    as many."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)}
    cores = sorted(os.sched_getaffinity(0))
    if ranks <= len(cores):
        environment["COMPARE_CORES"] = ",".join(map(str, cores[:ranks]))
    return environment


def weft_command(ranks):
    """(command, environment) of weft's job."""
    folder = install.ROOT / "build" / "release" / "bin"
    return [folder / "weftrun", "-n", str(ranks), folder / "compare_weft"], environment_for(ranks)


def peer_command(peer, setting, ranks, crowded):
    """(command, environment) of a peer's job with one of its settings."""
    prefix = install.prefix_of(peer)
    environment = environment_for(ranks)
    environment["LD_LIBRARY_PATH"] = str(prefix / "lib")
    if peer.name == "gloo":
        environment["PYTHONPATH"] = str(install.site_packages(peer))
        command = [install.venv_python(), "-B", DRIVER / "gloo_driver.py", str(ranks)]
    elif peer.name == "openmpi":
        environment.update(OPAL_PREFIX=str(prefix), OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        many = ["--map-by", ":OVERSUBSCRIBE"] if crowded else []
        command = [prefix / "bin" / "mpiexec", "-n", str(ranks), *many, *setting.arguments, program_of(peer)]
    elif peer.name == "mpich":
        command = [prefix / "bin" / "mpiexec", "-n", str(ranks), *setting.arguments, program_of(peer)]
    else:
        environment.update(I_MPI_ROOT=str(prefix), CCL_ROOT=str(prefix))
        command = [prefix / "bin" / "mpiexec.hydra", "-n", str(ranks), *setting.arguments, program_of(peer)]
    environment.update(setting.environment)
    return command, environment


def python_commands(peers, ranks, crowded):
    """{name: (command, environment)} of python_driver.py's jobs, weft first. numpy is the first peer's."""
    driver, release = DRIVER / "python_driver.py", install.ROOT / "build" / "release"
    python = [install.venv_python(), "-B", driver]
    environment = environment_for(ranks)
    environment.update(PYTHONPATH=os.pathsep.join(map(str, (install.ROOT / "bindings" / "python" / "src", install.site_packages(peers[0])))),
                       WEFT_LIBRARY_PATH=str(release / "lib"))
    found = {"weft": ([release / "bin" / "weftrun", "-n", str(ranks), *python, "weft"], environment)}
    for peer in peers:
        prefix = install.prefix_of(peer)
        environment = environment_for(ranks)
        environment.update(PYTHONPATH=str(install.site_packages(peer)), LD_LIBRARY_PATH=str(prefix / "lib"))
        many = []
        if peer.name == "mpi4py-openmpi":
            environment.update(OPAL_PREFIX=str(prefix), OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
            many = ["--map-by", ":OVERSUBSCRIBE"] if crowded else []
        found[peer.name] = [prefix / "bin" / "mpiexec", "-n", str(ranks), *many, *python, "mpi4py"], environment
    return found


def components_of(peer):
    """What ompi_info says, for Open MPI; nothing for the others."""
    if peer.name != "openmpi":
        return ""
    _, environment = peer_command(peer, peer.settings[0], 1, False)
    done = subprocess.run([install.prefix_of(peer) / "bin" / "ompi_info"], env=environment, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL, timeout=60, check=False)
    return done.stdout


def _compile(command):
    words = list(map(str, command))
    print("+ " + shlex.join(words), file=sys.stderr, flush=True)
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    except OSError as error:
        raise CompileFailed(f"{words[0]}: {error}") from None
    if done.returncode:
        raise CompileFailed(" | ".join(done.stdout.strip().splitlines()[-5:]))
