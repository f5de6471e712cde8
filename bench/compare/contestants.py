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
    failures: int = 0

    @property
    def is_weft(self):
        return self.name.startswith("weft/")


class Field:
    """The jobs of all contestants, started together and ended together. One thread."""

    def __init__(self, ranks, cores, wanted, components, folder, with_symmetric, report):
        """wanted: the peers that are installed; report(contestant name, sentence) is told of failures."""
        self._report = report
        self.cores = cores
        weft = Job("weft", *launch.weft_command(ranks), ranks, folder / f"weft-{ranks}")
        self.weft = weft
        self.contestants = [Contestant("weft/private", weft)]
        if with_symmetric:
            self.contestants.append(Contestant("weft/symmetric", weft, "symmetric"))
        for peer in wanted:
            for setting in peers.settings_for(peer, ranks > cores, components):
                name = f"{peer.name}/{setting.name}"
                command, environment = launch.peer_command(peer, setting, ranks, ranks > cores)
                job = Job(name, command, environment, ranks, folder / f"{peer.name}-{setting.name}-{ranks}")
                self.contestants.append(Contestant(name, job))
        self._out = set()

    def start(self, progress):
        """Starts every job; those that fail are reported and take no further part. weft's failure is the run's."""
        for contestant in self.contestants:
            if contestant.job is self.weft and contestant.name != "weft/private":
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
