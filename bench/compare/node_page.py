"""What a run over several nodes says: its targets, and nodes.md."""
from bench.compare import intervals, markdown, targets
from bench.compare.cells import size_text

# weft's own second transport, a contestant beside weft over TCP.
OVER_UCX = "weft-ucx"
_TITLES = {OVER_UCX: "weft over UCX", "ucx": "UCX messages", "gloo": "Gloo (torch)", "mpich": "MPICH", "openmpi": "Open MPI"}
_MPIS = ("mpich", "openmpi")
LARGE_BYTES = 1 << 20
# What the nodes of the part "cable" have, in bytes per microsecond and direction.
CABLE_BYTES_PER_US = 125.0


def _samples(result, peer):
    """(name, samples) of the quickest contestant of a peer in a cell; None if there is none."""
    measured = {name: entry["us"] for name, entry in result["contestants"].items()
                if name.partition("/")[0] == peer and entry["us"] and not entry["error"] and not entry["refusal"]}
    best = min(measured, key=lambda name: intervals.median(measured[name]), default=None)
    return None if best is None else (best, measured[best])


def _ratio(result, peer, factor=1.0):
    """(peer's time * factor / weft's, low, high), or None."""
    theirs, ours = _samples(result, peer), _samples(result, "weft")
    return intervals.ratio_interval([value * factor for value in theirs[1]], ours[1]) if theirs and ours else None


def _label(result):
    return f"{result['part']} {result['op']} {size_text(result['bytes'])}"


def _least(name, chosen, ratio, limit, rounds):
    """The target that no cell is below `limit`; chosen: (cell, peer) of what is judged."""
    pairs = [(f"{_label(result)} {peer}", ratio(result, peer)) for result, peer in chosen]
    pairs = [(label, found) for label, found in pairs if found]
    if not pairs:
        return targets.target_of(name, None, "not measured")
    below = [(label, found) for label, found in pairs if found[2] < limit]
    unsure = [(label, found) for label, found in pairs if found[1] < limit <= found[2]]
    detail = [f"{title}: " + ", ".join(f"{label} {found[0]:.2f}" for label, found in some)
              for title, some in (("below", below), ("not certain", unsure)) if some]
    return targets.target_of(name, min(found[0] for _, found in pairs), targets.verdict_of(below, unsure, rounds), "; ".join(detail))


def _cable(chosen, rounds):
    """Against a flat ring of all ranks, which is what Gloo has, or the cable itself: either is enough."""
    name = "2x2 over cables of 1 Gbit/s: all_reduce at 92 % of the cable"
    shares = []
    for result in chosen:
        ours = _samples(result, "weft")
        if ours:
            shares.append((f"{size_text(result['bytes'])}", result["bytes"] / CABLE_BYTES_PER_US / intervals.median(ours[1])))
    if not shares:
        return targets.target_of(name, None, "not measured")
    least = min(share for _, share in shares)
    return targets.target_of(name, least, targets.verdict_of(least < 0.92, False, rounds),
                             ", ".join(f"{label} {share:.1%}" for label, share in shares))


def _traffic(entries):
    name = "bytes on the cables: within 3 % of theory"
    if not entries:
        return targets.target_of(name, None, "not measured")
    ratios = [(entry["part"], sent / entry["theory_bytes"]) for entry in entries for sent in entry["sent_bytes"]]
    most = max(ratio for _, ratio in ratios)
    return targets.target_of(name, most, "pass" if most <= 1.03 else "fail",
                             ", ".join(f"{part} {ratio:.4f}" for part, ratio in ratios))


def judged(results):
    """All targets in order."""
    rounds = results["rounds"]
    free = [result for result in results["cells"] if result["part"] != "cable"]
    reduces = [result for result in free if result["op"] == "all_reduce" and result["part"] == "2x1"]
    tiny = [result for result in reduces if result["bytes"] == 8]
    large = [result for result in reduces if result["bytes"] >= LARGE_BYTES]
    cable = [result for result in results["cells"] if result["part"] == "cable"]
    return [
        _least("all_reduce 8 B, 2x1: a tenth of Gloo's time", [(result, "gloo") for result in tiny], _ratio, 10.0, rounds),
        _least("all_reduce 8 B, 2x1: at most 2.2 half round trips of UCX (as a ratio, 0.4545)", [(result, "ucx") for result in tiny],
               lambda result, peer: _ratio(result, peer, 0.5), 1 / 2.2, rounds),
        _least("all_reduce from 1 MiB, 2x1: 80 % of UCX's exchange", [(result, "ucx") for result in large], _ratio, 0.8, rounds),
        _least("all_reduce from 1 MiB, 2x1: 1.2 times Gloo", [(result, "gloo") for result in large], _ratio, 1.2, rounds),
        _least("never below MPICH or Open MPI", [(result, peer) for result in free for peer in _MPIS], _ratio, 1.0, rounds),
        _least("over TCP: 90 % of weft over UCX at every size", [(result, OVER_UCX) for result in free], _ratio, 0.9, rounds),
        _least("2x2 over cables of 1 Gbit/s: 1.35 times a flat ring (Gloo's)", [(result, "gloo") for result in cable], _ratio, 1.35,
               rounds),
        _cable(cable, rounds),
        _traffic(results["traffic"]),
    ]


def one_line(result):
    """A cell for the progress line."""
    texts = []
    for peer in ("weft", *_TITLES):
        found = _samples(result, peer)
        if found:
            texts.append(f"{found[0] if peer != 'weft' else 'weft'} {markdown.time_text(intervals.median(found[1]))}")
    return ", ".join(texts) or "nothing was measured"


def _table(group):
    lines = ["| op | bytes | weft | spread | " + " | ".join(_TITLES.values()) + " | least peer / weft [95 %] |",
             "|---|---|---|---|" + "---|" * (len(_TITLES) + 1)]
    for result in group:
        ours = _samples(result, "weft")
        spread = intervals.quartiles(ours[1]) if ours else (None, None)
        row = [result["op"], size_text(result["bytes"]), markdown.time_text(intervals.median(ours[1]) if ours else None),
               f"{markdown.time_text(spread[0])}-{markdown.time_text(spread[1])}"]
        rivals = {}
        for peer in _TITLES:
            found = _samples(result, peer)
            row.append(f"{markdown.time_text(intervals.median(found[1]))} {found[0].partition('/')[2]}" if found else "-")
            if found and peer not in ("ucx", OVER_UCX):
                rivals[peer] = intervals.median(found[1])
        best = min(rivals, key=rivals.get, default=None)
        row.append(markdown.ratio_text(_ratio(result, best)) if best else "-")
        lines.append("| " + " | ".join(row) + " |")
    return lines


def render(results):
    """The whole page."""
    about = results["machine"]
    lines = ["# weft and its peers on several nodes", "",
             f"{about['date']}, {about['processor']}, {about['cores']} cores, Linux {about['kernel']}, weft {about['commit']}, load "
             f"{about['load']} at the beginning; {results['rounds']} rounds.", "",
             "Nodes are network namespaces of one machine, joined by veth and a bridge. Microseconds per call, medians of the rounds, each "
             "peer in its best setting. UCX messages: to 8 KiB there and back, of which 8 B of all_reduce is judged by the half; above, as "
             "many bytes both ways at once.", ""]
    parts = {}
    for result in results["cells"]:
        parts.setdefault(result["part"], []).append(result)
    for part, group in parts.items():
        title = "2x2, cables of 1 Gbit/s" if part == "cable" else part
        lines += [f"## {title}", "", *_table(group), ""]
    if results["traffic"]:
        lines += ["## Bytes on the cables", "", "| part | bytes | calls | sent by the nodes | theory |", "|---|---|---|---|---|"]
        lines += [f"| {entry['part']} | {size_text(entry['bytes'])} | {entry['calls']} | {', '.join(map(str, entry['sent_bytes']))} | "
                  f"{entry['theory_bytes']} |" for entry in results["traffic"]] + [""]
    lines += ["## Versions", "", *(f"- {_TITLES.get(name, name)}: {version}" for name, version in results["versions"].items()), "",
              "## What failed", ""]
    lines += [f"- {one['name']}: {one['error']}" for one in results["errors"]] or ["Nothing."]
    return "\n".join([*lines, "", "## Targets", "", *targets.lines(results["targets"])]) + "\n"
