"""Ranks in Python that other launchers start: the mpiexec of MPICH and of Open MPI; and Slurm's srun, whose variables the test sets. torchrun: tests/torch/launchers_test.py."""
import subprocess
import sys

import ranks
from ranks import RanksTest, launched

_PROGRAM = """\
import array, weft
with weft.init(timeout=30) as world:
    x = array.array("f", [world.rank + 1.0])
    world.all_reduce(x)
    print(f"{world.rank} {world.size} {x[0]}\\n", end="", flush=True)
"""
_JOB = {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0"}


class Launchers(RanksTest):
    def expect_ranks(self, size, commands_and_environments):
        """Starts all; together they are `size` ranks of one world."""
        program = self.program(_PROGRAM, start="")
        processes = [subprocess.Popen([*map(str, command), sys.executable, "-B", program], env={**ranks.environment(), **more}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                     for command, more in commands_and_environments]
        try:
            ended = [process.communicate(timeout=launched.DEADLINE_S) for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
        lines = sorted(line for out, _ in ended for line in out.split("\n") if line)
        self.assertEqual([f"{rank} {size} {size * (size + 1) / 2}" for rank in range(size)], lines, ended)
        self.assertEqual({0}, {process.returncode for process in processes}, ended)

    def prefix(self, name):
        """The folder of an MPI, below which pip has it, in a folder named local with Debian's."""
        found = next((ranks.packages.parent / name).glob("**/bin/mpiexec"), None)
        if not found:
            self.skipTest(f"./dev test python could not install {name}")
        return found.parent.parent

    def test_mpich(self):
        self.expect_ranks(3, [((self.prefix("mpich") / "bin" / "mpiexec", "-n", 3), {})])

    def test_open_mpi(self):
        prefix = self.prefix("openmpi")
        environment = {"OPAL_PREFIX": str(prefix), "LD_LIBRARY_PATH": str(prefix / "lib"), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        # More ranks than cores are numbered on their node in another order than in the job.
        self.expect_ranks(3, [((prefix / "bin" / "mpiexec", "-n", 3, "--map-by", ":OVERSUBSCRIBE"), environment)])

    def test_slurm_on_one_node(self):
        self.expect_ranks(3, [((), {**_JOB, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank), "SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_NUM_NODES": "1"}) for rank in range(3)])

    def test_slurm_on_two_nodes(self):
        secret = self.folder / "secret"
        secret.write_text("0123456789abcdef0123456789abcdef")
        secret.chmod(0o600)
        self.expect_ranks(2, [((), {**_JOB, "SLURM_PROCID": str(node), "SLURM_LOCALID": "0", "SLURM_NODEID": str(node), "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "2",
                                    "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_STEP_NODELIST": "localhost,another", "WEFT_JOB_SECRET_FILE": str(secret),
                                    "WEFT_MASTER_PORT": str(port)}) for port in [launched.free_port()] for node in range(2)])


if __name__ == "__main__":
    ranks.take_arguments()
    ranks.main()
