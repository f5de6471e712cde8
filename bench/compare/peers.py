"""Whom weft is compared with, and every setting that is tried: the one table.

The best setting of a peer counts in each cell, so a setting costs time and nothing else. A setting belongs here when the
peer's documentation recommends it for ranks on one machine, or for more ranks than cores.
"""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Setting:
    """How a peer is started: environment, arguments of its launcher, and why it is worth trying."""

    name: str
    why: str
    environment: dict = dataclasses.field(default_factory=dict)
    arguments: tuple = ()
    # When it makes sense: "always", or "crowded" (more ranks than cores) only.
    when: str = "always"
    # A component that the peer's build must have, as ompi_info names it.
    component: str = ""


@dataclasses.dataclass(frozen=True)
class Peer:
    """A library with its packages, its driver and its settings."""

    name: str
    title: str
    packages: tuple
    settings: tuple


_RELEASE_GATHER = {f"MPIR_CVAR_{name}_POSIX_INTRA_ALGORITHM": "release_gather"
                   for name in ("BCAST", "REDUCE", "ALLREDUCE", "BARRIER")}

PEERS = (
    Peer("mpich", "MPICH", ("mpich",), (
        Setting("default", "what a user gets"),
        Setting("release_gather", "shared-memory collectives from the first call on",
                dict(_RELEASE_GATHER, MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD="0")),
        Setting("yield", "gives the core away while it waits", {
            "MPIR_CVAR_POLLS_BEFORE_YIELD": "1", "MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"}, when="crowded"),
    )),
    Peer("openmpi", "Open MPI", ("openmpi",), (
        Setting("default", "what a user gets"),
        Setting("xhc", "single-copy shared-memory collectives", arguments=("--mca", "coll_xhc_priority", "90"),
                component="coll: xhc"),
        Setting("acoll", "collectives for AMD processors", arguments=("--mca", "coll_acoll_priority", "90"),
                component="coll: acoll"),
        Setting("sm", "shared-memory collectives, off by default", arguments=("--mca", "coll_sm_priority", "90"),
                component="coll: sm "),
        Setting("ucx", "point to point through UCX's shared memory",
                {"UCX_TLS": "posix,cma,self"}, ("--mca", "pml", "ucx", "--mca", "opal_common_ucx_tls", "any",
                                                "--mca", "opal_common_ucx_devices", "any"), component="pml: ucx"),
        Setting("yield", "gives the core away while it waits", arguments=("--mca", "mpi_yield_when_idle", "1"),
                when="crowded"),
    )),
    Peer("impi", "Intel MPI", ("impi-rt", "impi-devel"), (
        Setting("default", "what a user gets"),
        Setting("shm", "shared memory alone, no network provider", {"I_MPI_FABRICS": "shm"}),
        Setting("shm-icx", "shared memory with the code for AVX-512 servers, whatever the processor says",
                {"I_MPI_FABRICS": "shm", "I_MPI_SHM": "icx"}),
        Setting("yield", "sched_yield while it waits", {"I_MPI_FABRICS": "shm", "I_MPI_THREAD_YIELD": "2"},
                when="crowded"),
        Setting("wait", "sleeps while it waits", {"I_MPI_FABRICS": "shm", "I_MPI_WAIT_MODE": "1"}, when="crowded"),
    )),
    Peer("oneccl", "oneCCL", ("oneccl", "oneccl-devel", "impi-rt", "impi-devel"), (
        Setting("default", "what a user gets"),
        Setting("workers", "a worker thread beside each rank, placed by oneCCL",
                {"CCL_WORKER_OFFLOAD": "1", "CCL_WORKER_COUNT": "1", "CCL_WORKER_AFFINITY": "auto"}),
        Setting("ofi", "libfabric's shared memory in place of MPI's", {"CCL_ATL_TRANSPORT": "ofi", "CCL_ATL_SHM": "1"}),
        Setting("yield", "its threads yield while they wait", {"CCL_YIELD": "sched_yield", "I_MPI_THREAD_YIELD": "2"},
                when="crowded"),
    )),
    Peer("gloo", "Gloo (torch)", ("torch", "numpy"), (
        Setting("default", "what a user gets; measured from Python, as torch users call it"),
    )),
)


# Between nodes, over TCP. UCX exchanges messages alone: what a collective of two ranks can at best be.
NODE_PEERS = (
    Peer("ucx", "UCX, an exchange", (), (
        Setting("tcp", "its TCP transport", {"UCX_TLS": "tcp", "UCX_NET_DEVICES": "eth0"}),
    )),
    Peer("gloo", "Gloo (torch)", ("torch", "numpy"), (
        Setting("default", "what a user gets; measured from Python, as torch users call it"),
    )),
    # UCX, which it has inside, finds memory to share by the machine, not by the node, and these nodes are one machine.
    Peer("mpich", "MPICH", ("mpich",), (
        Setting("ucx", "what a user gets on two machines with nothing but TCP", {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0"}),
        Setting("ofi", "libfabric's own provider for TCP", {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"}),
    )),
    Peer("openmpi", "Open MPI", ("openmpi",), (
        Setting("default", "what a user gets", arguments=("--mca", "btl_tcp_if_include", "eth0")),
        Setting("btl", "its own TCP transport", arguments=("--mca", "pml", "ob1", "--mca", "btl", "self,sm,tcp", "--mca",
                                                           "btl_tcp_if_include", "eth0")),
        Setting("ucx", "point to point through UCX", {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0"},
                ("--mca", "pml", "ucx", "--mca", "opal_common_ucx_tls", "any", "--mca", "opal_common_ucx_devices", "any")),
    )),
)

# From Python: each over the MPI of its own folder.
PYTHON_PEERS = tuple(Peer(f"mpi4py-{name}", f"mpi4py over {title}", (name, "mpi4py", "numpy"), (Setting("default", "what a user gets"),))
                     for name, title in (("mpich", "MPICH"), ("openmpi", "Open MPI")))


def settings_for(peer, crowded, components=None):
    """The settings that make sense with or without a core for each rank.

    components: the text of ompi_info, for a peer that has one; None leaves out what needs a component.
    """
    wanted = ("always", "crowded") if crowded else ("always",)
    return [setting for setting in peer.settings
            if setting.when in wanted and (not setting.component or setting.component in (components or "") + " ")]
