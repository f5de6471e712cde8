"""Everybody who is measured with a number of ranks: weft in two kinds of memory, and each peer in each setting."""
import dataclasses

from bench.compare import launch, peers
from bench.compare.jobs import Job, JobFailed

START_TIMEOUT_S = 120
_RESTARTS = 3


@dataclasses.dataclass
class Contestant:
    """A name as in the results ("mpich/default"), its job, and which memory it is asked to use."""

    name: str
    job: Job
    memory: str = "private"
    # What it does in place of a cell's operation: a function of the cell, for who has none of them.
    stand_in: object = None
    failures: int = 0

    @property
    def is_weft(self):
        return self.name.startswith("weft/")

    def op_of(self, cell):
        return self.stand_in(cell) if self.stand_in else cell.op


def on_one_machine(ranks, cores, wanted, components, folder, with_symmetric):
    """The contestants of a number of ranks without a network; weft first. wanted: the peers that are installed."""
    weft = Job("weft", *launch.weft_command(ranks), ranks, folder / f"weft-{ranks}")
    found = [Contestant("weft/private", weft)]
    if with_symmetric:
        found.append(Contestant("weft/symmetric", weft, "symmetric"))
    for peer in wanted:
        for setting in peers.settings_for(peer, ranks > cores, components):
            name = f"{peer.name}/{setting.name}"
            command, environment = launch.peer_command(peer, setting, ranks, ranks > cores)
            job = Job(name, command, environment, ranks, folder / f"{peer.name}-{setting.name}-{ranks}")
            found.append(Contestant(name, job))
    return found


class Field:
    """The jobs of all contestants, started together and ended together. One thread."""

    def __init__(self, contestants, cores, report):
        """contestants: weft's first; report(contestant name, sentence) is told of failures."""
        self._report = report
        self.cores = cores
        self.contestants = contestants
        self.weft = contestants[0].job
        self._out = set()

    def start(self, progress):
        """Starts every job; those that fail are reported and take no further part. weft's failure is the run's."""
        for contestant in self.contestants:
            if contestant.job is self.weft and contestant is not self.contestants[0]:
                continue
            progress(f"starting {contestant.name}")
            try:
                contestant.job.start(START_TIMEOUT_S)
            except JobFailed as error:
                contestant.job.end()
                if contestant.is_weft:
                    raise
                self._report(contestant.name, str(error))
                self._out.add(contestant.name)

    def running(self):
        """Those that take part."""
        return [contestant for contestant in self.contestants if contestant.name not in self._out]

    def wrong(self, contestant, sentence):
        """Reports wrong results; the contestant goes on with the next cell."""
        self._report(contestant.name, sentence)

    def failed(self, contestant, error):
        """Reports a failure, and starts the job again for the next cell, a few times."""
        self._report(contestant.name, str(error))
        contestant.failures += 1
        contestant.job.end()
        if contestant.failures > _RESTARTS:
            self._report(contestant.name, f"failed {contestant.failures} times; it takes no further part")
            self._out.add(contestant.name)
            return
        try:
            contestant.job.start(START_TIMEOUT_S)
        except JobFailed as again:
            contestant.job.end()
            self._report(contestant.name, f"cannot be started again: {again}")
            self._out.add(contestant.name)

    def end(self):
        for contestant in self.contestants:
            contestant.job.end()
