"""compare.md: a table per number of ranks, element type and kind of buffers, and the targets: in words first, all of them in a table last."""
from bench.compare import findings, intervals, summary, targets
from bench.compare.cells import size_text

_TITLES = {"mpich": "MPICH", "openmpi": "Open MPI", "impi": "Intel MPI", "oneccl": "oneCCL", "gloo": "Gloo (torch)"}


def time_text(microseconds):
    """Three digits."""
    if microseconds is None:
        return "-"
    if microseconds >= 100:
        return f"{microseconds:.0f}"
    return f"{microseconds:.1f}" if microseconds >= 10 else f"{microseconds:.2f}"


def spread_text(values, text=time_text):
    """The median, and the quartiles in brackets."""
    low, high = intervals.quartiles(values)
    return f"{text(intervals.median(values))} ({text(low)}-{text(high)})"


def ratio_text(ratio):
    return "-" if ratio is None else f"{ratio[0]:.2f} [{ratio[1]:.2f}, {ratio[2]:.2f}]"


def _share_text(share):
    return "-" if share is None else f"{share:.0%}"


def _table(found, peers, symmetric):
    """Lines of one table."""
    heads = ["op", "bytes", "weft", "spread", *(_TITLES.get(peer, peer) for peer in peers), "best / weft [95 %]", "of bound"]
    if symmetric:
        heads += ["weft symmetric", "best / symmetric [95 %]", "of its bound"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for finding in found:
        low, high = finding.spreads.get("weft/private", (None, None))
        row = [finding.cell.op + (" in place" if finding.cell.place == "in" and finding.cell.op != "broadcast" else ""),
               size_text(finding.cell.bytes), time_text(finding.weft), f"{time_text(low)}-{time_text(high)}"]
        for peer in peers:
            name = finding.best_settings.get(peer)
            text = f"{time_text(finding.medians[name])} {name.partition('/')[2]}" if name else "-"
            row.append(f"**{text}**" if name and name == finding.best_peer else text)
        row += [ratio_text(finding.ratio), _share_text(finding.share)]
        if symmetric:
            row += [time_text(finding.symmetric), ratio_text(finding.symmetric_ratio), _share_text(finding.symmetric_share)]
        lines.append("| " + " | ".join(row) + " |")
    return lines


def _machine(results):
    about = results["machine"]
    return [f"{about['date']}, {about['processor']}, {about['cores']} cores, L2 {size_text(about['l2_bytes'])}B, L3 "
            f"{size_text(about['l3_bytes'])}B, Linux {about['kernel']}, weft {about['commit']}, load {about['load']} at the "
            f"beginning; {results['rounds']} rounds.", "",
            "Microseconds per call, medians of the rounds; spread: quartiles. Each peer in its best setting for the cell, whose "
            "name stands beside the time. best: the best peer, bold. What the columns mean and what is fair: docs/compare.md."]


def _settings(results):
    lines = ["## Versions and settings", "", "| library | version |", "|---|---|"]
    lines += [f"| {_TITLES.get(name, name)} | {version} |" for name, version in results["versions"].items()]
    lines += ["", "| setting | ranks | started with | why |", "|---|---|---|---|"]
    rows = {}
    for one in results["settings"]:
        started = " ".join([*(f"{key}={value}" for key, value in one["environment"].items()), *one["arguments"]])
        rows.setdefault((one["name"], f"`{started}`" if started else "-", one["why"]), []).append(str(one["ranks"]))
    lines += [f"| {name} | {' '.join(ranks)} | {started} | {why} |" for (name, started, why), ranks in rows.items()]
    return lines


def _errors(results):
    lines = ["## What failed", ""]
    refusals = {}
    for result in results["cells"]:
        for name, entry in result["contestants"].items():
            if entry["refusal"]:
                refusals.setdefault((name, entry["refusal"]), set()).add(f"{result['op']} {result['dtype']}")
    lines += [f"- {one['name']}: {one['error']}" for one in results["errors"]]
    lines += [f"- {name}, not available: {reason} ({', '.join(sorted(where))})" for (name, reason), where in refusals.items()]
    return lines if lines[2:] else lines + ["Nothing."]


def render(results):
    """The whole page."""
    found = [findings.judge(result) for result in results["cells"]]
    lines = ["# weft and its peers", "", *_machine(results), "", "## Targets", "", *summary.lines(found)]
    tables = {}
    for finding in found:
        tables.setdefault((finding.cell.ranks, finding.cell.dtype, finding.cell.buffers), []).append(finding)
    for (ranks, dtype, buffers), group in tables.items():
        peers = sorted({peer for finding in group for peer in finding.best_settings}, key=list(_TITLES).index)
        symmetric = any(finding.symmetric is not None for finding in group)
        lines += ["", f"## {ranks} ranks, {dtype}, {buffers} buffers", "", *_table(group, peers, symmetric)]
    every = targets.lines(targets.judged(found, results.get("alone"), results["rounds"]))
    return "\n".join([*lines, "", *_settings(results), "", *_errors(results), "", "## Every target", "", *every]) + "\n"
