"""The targets that weft has set itself, and the figure of this run for each."""
from bench.compare.cells import size_text
from bench.compare.intervals import geometric_mean

REDUCING = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")


def name_of(finding):
    """A cell as the targets name it."""
    cell = finding.cell
    return f"{cell.op} {size_text(cell.bytes)} {cell.dtype} {cell.buffers}"


def _list(found, ratio):
    return "; ".join(f"{name_of(finding)} {ratio(finding)[0]:.2f}" for finding in found) or "none"


def below(found, target, ratio=lambda finding: finding.ratio):
    """(certain, uncertain): whose whole interval is below the target, and whose interval holds the target."""
    judged = [finding for finding in found if ratio(finding)]
    certain = [finding for finding in judged if ratio(finding)[2] < target]
    uncertain = [finding for finding in judged if ratio(finding)[1] < target <= ratio(finding)[2]]
    return certain, uncertain


def _no_cell_below(found, target, ratio=lambda finding: finding.ratio):
    certain, uncertain = below(found, target, ratio)
    return f"below {target}: {_list(certain, ratio)}. Not certain: {_list(uncertain, ratio)}"


def _mean_text(found):
    mean = geometric_mean([finding.ratio[0] for finding in found if finding.ratio])
    return "-" if mean is None else f"{mean:.2f}"


def _means(found, ops):
    return ", ".join(f"{op} {_mean_text([finding for finding in found if finding.cell.op == op])}" for op in ops)


def _private(found, ranks, buffers):
    """Lines on private buffers of one number of ranks."""
    here = [finding for finding in found if finding.ratio and (finding.cell.ranks, finding.cell.buffers) == (ranks, buffers)]
    main = [finding for finding in here if finding.cell.op in REDUCING]
    lines = []
    if main:
        weak = [finding for finding in main if finding.ratio[0] < 1.2 and finding.share < 0.8]
        lines += [f"- {ranks} ranks, {buffers}, {len(main)} cells without broadcast: geometric mean **{_mean_text(main)}** "
                  f"({_means(main, REDUCING)})",
                  f"  - {_no_cell_below(main, 1.0)}",
                  f"  - below 1.2 and below 80 % of the bound: {_list(weak, lambda finding: finding.ratio)}"]
    broadcasts = [finding for finding in here if finding.cell.op == "broadcast"]
    if broadcasts:
        lines += [f"- {ranks} ranks, {buffers}, broadcast: geometric mean **{_mean_text(broadcasts)}**; "
                  f"{_no_cell_below(broadcasts, 0.9)}"]
    return lines


def _symmetric(found):
    """Lines on memory from weft_mem_alloc, 2 ranks."""
    judged = [finding for finding in found if finding.symmetric_ratio and finding.cell.ranks == 2]
    lines = []

    def target(title, chosen, limit):
        if chosen:
            least = min(chosen, key=lambda finding: finding.symmetric_ratio[0])
            lines.append(f"- symmetric, {title}: least {least.symmetric_ratio[0]:.2f} ({name_of(least)}); "
                         + _no_cell_below(chosen, limit, lambda finding: finding.symmetric_ratio))

    target("all_reduce from 64 KiB, target 4", [finding for finding in judged if finding.cell.op == "all_reduce"
                                         and finding.cell.bytes >= 64 << 10], 4.0)
    chunks = [finding for finding in judged if finding.cell.op in ("all_gather", "reduce_scatter")]
    target("all_gather and reduce_scatter to 1 MiB, target 2.5", [finding for finding in chunks if finding.cell.bytes <= 1 << 20], 2.5)
    large = [finding for finding in chunks if finding.cell.bytes > 1 << 20]
    if large:
        shares = ", ".join(f"{name_of(finding)} {finding.symmetric_share:.0%}" for finding in large)
        lines.append(f"- symmetric, all_gather and reduce_scatter above 1 MiB, share of the copy rate, target 90 %: {shares}")
    return lines


def _bfloat16(found):
    """Bytes per second against float32, 2 ranks, all_reduce on private buffers."""
    times = {(finding.cell.dtype, finding.cell.buffers, finding.cell.bytes): finding.weft for finding in found
             if finding.cell.op == "all_reduce" and finding.cell.ranks == 2 and finding.weft}
    pairs = [(buffers, size, times["float32", buffers, size] / time) for (dtype, buffers, size), time in times.items()
             if dtype == "bfloat16" and ("float32", buffers, size) in times]
    if not pairs:
        return []
    low = [f"{size_text(size)} {buffers} {ratio:.2f}" for buffers, size, ratio in pairs if ratio < 0.9]
    return [f"- bfloat16 all_reduce against float32 in bytes/s, target 0.9: least {min(ratio for *_, ratio in pairs):.2f}; "
            f"below: {'; '.join(low) or 'none'}"]


def lines(found):
    """The list under "Targets"."""
    text = []
    for ranks in sorted({finding.cell.ranks for finding in found}):
        for buffers in ("hot", "rotated"):
            text += _private(found, ranks, buffers)
    crowded = [finding for finding in found if finding.ratio and finding.cell.ranks == 8]
    if crowded:
        text.append(f"- 8 ranks, every size and buffer: {_no_cell_below(crowded, 2.0)}")
    text += _symmetric(found) + _bfloat16(found)
    return text or ["Nothing to judge."]
