"""How each library's driver is started with its ranks on several nodes of a lab (lab.py)."""
import shlex

from bench.compare import install, launch

# Jobs of weft live side by side, one for each transport.
_PORTS = {"tcp": 29500, "ucx": 29501}


def weft_command(lab, per_node, transport):
    """(command, environment) of weft's job: `per_node` ranks on each node of the lab, "tcp" or "ucx" between them."""
    environment = launch.environment_for(lab.nodes * per_node)
    # The lab's network is nobody else's.
    environment.update(lab.environment, WEFT_INSECURE="1", WEFT_TRANSPORT=transport)
    folder = install.ROOT / "build" / "release" / "bin"
    return _together([lab.on(node, [folder / "weftrun", "-n", per_node, "--nnodes", lab.nodes, "--node-rank", node, "--master-addr",
                                    lab.address(0), "--master-port", _PORTS[transport], folder / "compare_weft"])
                      for node in range(lab.nodes)]), environment


def peer_command(name, setting, lab, per_node):
    """Likewise, of a peer with one of its settings."""
    environment = launch.environment_for(lab.nodes * per_node)
    make = {"gloo": _gloo, "ucx": _ucx, "mpich": _mpich, "openmpi": _openmpi}[name]
    command = make(setting, lab, per_node, environment)
    environment.update(lab.environment)
    environment.update(setting.environment)
    return command, environment


def _together(commands):
    """One command for several; it fails as the last one that failed. Each ends with it, however that ends."""
    lines = [f"setpriv --pdeathsig KILL {shlex.join(map(str, words))} & p{number}=$!" for number, words in enumerate(commands)]
    waits = [f"wait $p{number} || code=$?" for number in range(len(commands))]
    return ["sh", "-c", "\n".join([*lines, "code=0", *waits, "exit $code"])]


def _gloo(_setting, lab, per_node, environment):
    environment.update(PYTHONPATH=str(install.site_packages_of("gloo")), GLOO_SOCKET_IFNAME="eth0", OMP_NUM_THREADS="1")
    ranks = lab.nodes * per_node
    return _together([lab.on(rank // per_node, [install.venv_python(), "-B", launch.DRIVER / "gloo_driver.py", ranks, rank])
                      for rank in range(ranks)])


def _ucx(_setting, lab, per_node, environment):
    environment["UCX_WARN_UNUSED_ENV_VARS"] = "n"
    return _together([lab.on(rank // per_node, ["env", f"RANK={rank}", launch.program_of_name("ucx")])
                      for rank in range(lab.nodes * per_node)])


def _mpich(setting, lab, per_node, environment):
    prefix = install.prefix_of_name("mpich")
    environment["LD_LIBRARY_PATH"] = str(prefix / "lib")
    hosts = ",".join(lab.address(node) for node in range(lab.nodes))
    return lab.on(0, [prefix / "bin" / "mpiexec", "-launcher", "rsh", "-launcher-exec", lab.rsh, "-hosts", hosts, "-ppn", per_node,
                      "-n", lab.nodes * per_node, *setting.arguments, launch.program_of_name("mpich")])


def _openmpi(setting, lab, per_node, environment):
    prefix = install.prefix_of_name("openmpi")
    environment.update(LD_LIBRARY_PATH=str(prefix / "lib"), OPAL_PREFIX=str(prefix), OMPI_ALLOW_RUN_AS_ROOT="1",
                       OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    hosts = ",".join(f"{lab.address(node)}:{per_node}" for node in range(lab.nodes))
    return lab.on(0, [prefix / "bin" / "mpiexec", "--host", hosts, "--prtemca", "plm_ssh_agent", lab.rsh, "-n", lab.nodes * per_node,
                      "--map-by", f"ppr:{per_node}:node:OVERSUBSCRIBE", *setting.arguments, launch.program_of_name("openmpi")])
