"""What the samples of a cell say: medians, the best peer, the ratio to it, the share of the bound."""
import dataclasses

from bench.compare import cells, intervals


@dataclasses.dataclass(frozen=True)
class Finding:
    """One cell, judged. Times in microseconds; None where something was not measured."""

    cell: cells.Cell
    medians: dict        # contestant -> median
    spreads: dict        # contestant -> (lower quartile, upper quartile)
    best_settings: dict  # peer -> name of its best contestant
    best_peer: str       # contestant; None when no peer was measured
    ratio: tuple         # (best peer / weft, low, high)
    symmetric_ratio: tuple
    bound: float
    symmetric_bound: float
    copy_bytes_per_s: float

    @property
    def weft(self):
        return self.medians.get("weft/private")

    @property
    def symmetric(self):
        return self.medians.get("weft/symmetric")

    @property
    def share(self):
        """Of the bound, private buffers: 1 is as fast as memory allows."""
        return self.bound / self.weft if self.weft else None

    @property
    def symmetric_share(self):
        return self.symmetric_bound / self.symmetric if self.symmetric else None


def cell_of(result):
    """The cell of an entry of the results."""
    return cells.Cell(*(result[name] for name in ("ranks", "op", "dtype", "bytes", "buffers", "place")))


def judge(result):
    """The finding of one entry of "cells"."""
    cell = cell_of(result)
    measured = {name: entry["us"] for name, entry in result["contestants"].items()
                if entry["us"] and not entry["error"] and not entry["refusal"]}
    medians = {name: intervals.median(times) for name, times in measured.items()}
    best_settings = {}
    for name in medians:
        peer = name.partition("/")[0]
        if peer != "weft" and medians[name] < medians.get(best_settings.get(peer), float("inf")):
            best_settings[peer] = name
    best = min(best_settings.values(), key=medians.get, default=None)

    def ratio(ours):
        return intervals.ratio_interval(measured[best], measured[ours]) if best and ours in measured else None

    rate = intervals.median(result["copy_bytes_per_s"]) if result["copy_bytes_per_s"] else 0.0
    heap_rates = result.get("heap_copy_bytes_per_s")
    heap_rate = intervals.median(heap_rates) if heap_rates else rate
    sync = intervals.median(result["sync_us"]) if result["sync_us"] else 0.0
    return Finding(cell, medians, {name: intervals.quartiles(times) for name, times in measured.items()}, best_settings, best,
                   ratio("weft/private"), ratio("weft/symmetric"), cells.bound_us(cell, rate, sync),
                   cells.bound_us(cell, heap_rate, sync, symmetric=True), rate)
