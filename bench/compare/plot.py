"""One SVG per operation: time over bytes, weft, each peer in its best setting, and the bound. Needs matplotlib.

    python -B -m bench.compare.plot runs/compare/DATE/compare.json
"""
import json
import pathlib
import sys

from bench.compare import findings

_COLOURS = {"weft": "#c00000", "mpich": "#1f77b4", "openmpi": "#2ca02c", "impi": "#9467bd", "oneccl": "#8c564b",
            "gloo": "#7f7f7f"}
_TITLES = {"mpich": "MPICH", "openmpi": "Open MPI", "impi": "Intel MPI", "oneccl": "oneCCL", "gloo": "Gloo (torch)"}


def _series(group):
    """[(label, colour, style, [(bytes, us)])] of the cells of one panel."""
    lines = [("weft", _COLOURS["weft"], "-o", [(f.cell.bytes, f.weft) for f in group if f.weft]),
             ("weft symmetric", _COLOURS["weft"], "--", [(f.cell.bytes, f.symmetric) for f in group if f.symmetric])]
    for peer, title in _TITLES.items():
        lines.append((title, _COLOURS[peer], "-", [(f.cell.bytes, f.medians[f.best_settings[peer]]) for f in group
                                                   if peer in f.best_settings]))
    lines.append(("bound", "#000000", ":", [(f.cell.bytes, f.bound) for f in group if f.bound]))
    return [line for line in lines if line[3]]


def draw(path):
    """Writes OP.svg beside the results, a panel per number of ranks, element type and kind of buffers."""
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "weft"  # the same figures make the same file
    from matplotlib import pyplot
    panels = {}
    for finding in map(findings.judge, json.loads(path.read_text())["cells"]):
        cell = finding.cell
        panels.setdefault(cell.op, {}).setdefault((cell.ranks, cell.dtype, cell.buffers), []).append(finding)
    for op, groups in panels.items():
        columns = min(len(groups), 4)
        rows = -(-len(groups) // columns)
        figure, axes = pyplot.subplots(rows, columns, figsize=(5 * columns, 4 * rows), squeeze=False)
        for axis, ((ranks, dtype, buffers), group) in zip(axes.flat, groups.items()):
            for label, colour, style, points in _series(sorted(group, key=lambda f: f.cell.bytes)):
                axis.plot(*zip(*points), style, color=colour, label=label, markersize=3, linewidth=1.2)
            axis.set(xscale="log", yscale="log", xlabel="bytes", ylabel="microseconds",
                     title=f"{op}, {ranks} ranks, {dtype}, {buffers}")
            axis.set_xscale("log", base=2)
            axis.grid(True, which="major", linewidth=0.3)
        for axis in list(axes.flat)[len(groups):]:
            axis.set_visible(False)
        axes.flat[0].legend(fontsize=7)
        figure.tight_layout()
        figure.savefig(path.parent / f"{op}.svg", metadata={"Date": None})
        pyplot.close(figure)


if __name__ == "__main__":
    draw(pathlib.Path(sys.argv[1]))
