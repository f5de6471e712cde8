"""Every target with its figure and its verdict.

    for target in targets.judged(found, results.get("alone"), results["rounds"]):
        print(target["target"], target["figure"], target["verdict"], target["detail"])

A target on cells fails where a whole interval lies below it, and is uncertain where an interval holds it.
"""
from bench.compare import intervals, summary
from bench.compare.cells import size_text
from bench.compare.summary import REDUCING

LEAST_ROUNDS = 9
TAIL_TARGET_US = 5000.0
IDLE_TARGET = 0.005


def target_of(name, figure, verdict, detail=""):
    return {"target": name, "figure": figure, "verdict": verdict, "detail": detail}


def _missing(name):
    return target_of(name, None, "not measured")


def verdict_of(certain, uncertain, rounds):
    """Fewer rounds than LEAST_ROUNDS prove nothing good."""
    if certain:
        return "fail"
    return "uncertain" if uncertain or rounds < LEAST_ROUNDS else "pass"


def _private_time(finding):
    return finding.weft


def _symmetric_time(finding):
    return finding.symmetric


def _lost(name, found, time=_private_time):
    """The failed target if weft has no time in some of the cells: it failed there, or its results were wrong."""
    lost = [finding for finding in found if time(finding) is None]
    if not lost or len(lost) == len(found):
        return None
    return target_of(name, None, "fail", "weft failed: " + ", ".join(summary.name_of(finding) for finding in lost))


def cells_target(name, found, limit, rounds, ratio=lambda finding: finding.ratio, time=_private_time):
    """No cell below `limit`; the figure is the least ratio."""
    judged = [finding for finding in found if ratio(finding)]
    if not judged:
        return _missing(name)
    if lost := _lost(name, found, time):
        return lost
    certain, uncertain = summary.below(judged, limit, ratio)
    detail = [f"{title}: " + ", ".join(f"{summary.name_of(finding)} {ratio(finding)[0]:.2f}" for finding in some)
              for title, some in (("below", certain), ("not certain", uncertain)) if some]
    return target_of(name, min(ratio(finding)[0] for finding in judged), verdict_of(certain, uncertain, rounds), "; ".join(detail))


def _mean_target(name, found, limit, rounds):
    mean = intervals.geometric_mean([finding.ratio[0] for finding in found if finding.ratio])
    if mean is None:
        return _missing(name)
    return _lost(name, found) or target_of(name, mean, verdict_of(mean < limit, False, rounds))


def _weak_target(name, found, rounds):
    """The figure counts cells below both 1.2 and 80 % of the bound."""
    judged = [finding for finding in found if finding.ratio and finding.share is not None]
    if not judged:
        return _missing(name)
    if lost := _lost(name, found):
        return lost
    weak = [finding for finding in judged if finding.ratio[0] < 1.2 and finding.share < 0.8]
    detail = ", ".join(f"{summary.name_of(finding)} {finding.ratio[0]:.2f}, {finding.share:.0%}" for finding in weak)
    return target_of(name, len(weak), verdict_of(weak, False, rounds), detail)


def _private(found, rounds):
    targets = []
    for buffers in ("hot", "rotated"):
        here = [finding for finding in found if finding.cell.ranks == 2 and finding.cell.buffers == buffers]
        main = [finding for finding in here if finding.cell.op in REDUCING]
        broadcasts = [finding for finding in here if finding.cell.op == "broadcast"]
        targets += [cells_target(f"private, {buffers}: no cell below 1.0", main, 1.0, rounds),
                    _weak_target(f"private, {buffers}: cells below 1.2 and below 80 % of the bound: 0", main, rounds),
                    _mean_target(f"private, {buffers}: geometric mean >= 1.4", main, 1.4, rounds),
                    cells_target(f"broadcast, {buffers}: no cell below 0.9", broadcasts, 0.9, rounds),
                    _mean_target(f"broadcast, {buffers}: geometric mean >= 1.2", broadcasts, 1.2, rounds)]
    four, eight = ([finding for finding in found if finding.cell.ranks == ranks] for ranks in (4, 8))
    return targets + [cells_target("4 ranks: no cell below 1.0", four, 1.0, rounds),
                      _mean_target("4 ranks: geometric mean >= 1.4", four, 1.4, rounds),
                      cells_target("8 ranks: no cell below 2.0", eight, 2.0, rounds)]


def _symmetric(found, rounds):
    two = [finding for finding in found if finding.cell.ranks == 2]
    reduces = [finding for finding in two if finding.cell.op == "all_reduce" and 64 << 10 <= finding.cell.bytes <= 64 << 20]
    chunks = [finding for finding in two if finding.cell.op == "reduce_scatter"
              or (finding.cell.op == "all_gather" and finding.cell.place == "in")]

    def ratio(finding):
        return finding.symmetric_ratio

    targets = [cells_target("symmetric all_reduce, 64 KiB to 64 MiB: >= 4", reduces, 4.0, rounds, ratio, _symmetric_time),
               cells_target("symmetric all_gather in place and reduce_scatter, to 1 MiB: >= 2.5",
                             [finding for finding in chunks if finding.cell.bytes <= 1 << 20], 2.5, rounds, ratio, _symmetric_time)]
    name = "symmetric all_gather in place and reduce_scatter, above 1 MiB: >= 90 % of the copy rate"
    above = [finding for finding in chunks if finding.cell.bytes > 1 << 20]
    large = [finding for finding in above if finding.symmetric_share is not None]
    if not large:
        return targets + [_missing(name)]
    if lost := _lost(name, above, _symmetric_time):
        return targets + [lost]
    low = [finding for finding in large if finding.symmetric_share < 0.9]
    detail = ", ".join(f"{summary.name_of(finding)} {finding.symmetric_share:.0%}" for finding in low)
    return targets + [target_of(name, min(finding.symmetric_share for finding in large), verdict_of(low, False, rounds), detail)]


def _without_failures(name, entries):
    """(entries that were measured, the target if there is nothing to judge or something failed)."""
    good = [entry for entry in entries if "error" not in entry]
    failures = [entry["error"] for entry in entries if "error" in entry]
    if failures:
        return good, target_of(name, None, "fail", "; ".join(failures))
    return good, None if good else _missing(name)


def _pairs_target(name, entries, rounds, limit=0.9):
    """The reference's time over the judged one's, never below `limit`."""
    good, verdict = _without_failures(name, entries)
    if verdict:
        return verdict
    ratios = [(entry, intervals.ratio_interval(entry["reference_us"], entry["judged_us"])) for entry in good]

    def listed(some):
        return ", ".join(f"{entry['memory']} {size_text(entry['bytes'])}"
                         + (f", {entry['flight']} under way" if "flight" in entry else "") + f" {ratio[0]:.2f}"
                         for entry, ratio in some)

    certain = [pair for pair in ratios if pair[1][2] < limit]
    uncertain = [pair for pair in ratios if pair[1][1] < limit <= pair[1][2]]
    detail = [f"{title}: {listed(some)}" for title, some in (("below", certain), ("not certain", uncertain)) if some]
    return target_of(name, min(ratio[0] for _, ratio in ratios), verdict_of(certain, uncertain, rounds), "; ".join(detail))


def _idle_target(entries):
    name = "idle process: < 0.5 % of a core over 10 s"
    good, verdict = _without_failures(name, entries)
    if verdict:
        return verdict
    share = max(entry["share"] for entry in good)
    detail = ", ".join(f"after {entry['after']} calls {entry['share']:.3%}" for entry in good)
    return target_of(name, share, "pass" if share < IDLE_TARGET else "fail", detail)


def _tail_target(entries):
    """A larger p99.9 is a failure; a larger maximum is told with what was taken from the machine meanwhile."""
    name = "4 and 8 ranks, 10,000 all_reduces to 64 KiB: p99.9 <= 5 ms"
    good, verdict = _without_failures(name, entries)
    if verdict:
        return verdict
    worst = max(good, key=lambda entry: entry["p999_us"])
    most = max(good, key=lambda entry: entry["max_us"])
    text = [f"worst p99.9 {worst['p999_us'] / 1e3:.2f} ms ({worst['ranks']} ranks, {size_text(worst['bytes'])})",
            f"maximum {most['max_us'] / 1e3:.2f} ms ({most['ranks']} ranks, {size_text(most['bytes'])}; in its window steal "
            f"{most['steal_s']:.2f} s, throttled {most['throttled_s']:.2f} s)"]
    bad = [entry for entry in good if entry["max_us"] > TAIL_TARGET_US and not entry["steal_s"] and not entry["throttled_s"]]
    if bad:
        text.append("no excuse for a maximum above 5 ms: " + ", ".join(f"{entry['ranks']} ranks {size_text(entry['bytes'])} "
                                                                       f"{entry['max_us'] / 1e3:.2f} ms" for entry in bad))
    return target_of(name, worst["p999_us"] / 1e3, "pass" if worst["p999_us"] <= TAIL_TARGET_US else "fail", "; ".join(text))


def judged(found, alone, rounds):
    """All targets in order. found: findings of the cells; alone: what alone.py measured, or None."""
    alone = alone or {}
    return [*_private(found, rounds), *_symmetric(found, rounds),
            _pairs_target("bfloat16 all_reduce: >= 0.9 of float32 in bytes/s", alone.get("dtypes", []), rounds),
            _pairs_target("asynchronous all_reduce from 64 KiB: >= 0.9 of blocking", alone.get("flights", []), rounds),
            _idle_target(alone.get("idle", [])), _tail_target(alone.get("tails", []))]


def said(target):
    """For the terminal."""
    figure = "" if target["figure"] is None else f" {target['figure']:.4g}"
    return f"{target['verdict']}: {target['target']}:{figure} {target['detail']}".rstrip()


def lines(targets):
    """The table at the end of the page."""
    rows = ["| target | figure | verdict | where |", "|---|---|---|---|"]
    for target in targets:
        figure = "-" if target["figure"] is None else f"{target['figure']:.4g}"
        detail = target["detail"].replace("|", "/") or "-"
        rows.append(f"| {target['target']} | {figure} | {target['verdict']} | {detail} |")
    return rows
