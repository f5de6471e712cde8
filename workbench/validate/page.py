"""report.html: one file that opens offline, without a script, a link or a picture beside it.

    (out / "report.html").write_text(page(report))
"""
import html

from workbench.validate.comparison import TOLERANCE
from workbench.validate.curves import Curve, chart
from workbench.validate.report import said, worst_cells
from workbench.validate.run import RED

_STYLE = """body{font-family:sans-serif;margin:2em;max-width:80em}table{border-collapse:collapse}
td,th{padding:2px 10px;text-align:left;border-bottom:1px solid #ddd}td.n{text-align:right}
tr.red td{color:#d00000;font-weight:bold}svg{margin:0 1em 1em 0}code{font-size:90%}"""


def page(report):
    machine = report.machine
    facts = (f"{report.form}; commit {machine['commit']}; {machine['date']}; "
             f"{machine['processor']}, {machine['cores']} cores, Linux {machine['kernel']}")
    parts = ["<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">",
             f"<title>Validation</title><style>{_STYLE}</style></head><body>",
             "<h1>Training has the same bits</h1>", f"<p>{html.escape(report.summary())}.</p>",
             f"<p>{html.escape(facts)}</p>"]
    if report.red():
        parts += ["<h2>Red</h2><ul>", *(_red_item(one) for one in report.red()), "</ul>"]
    parts += ["<h2>Curves</h2><p>All rows on top of each other: rows of the same bits are one "
              "curve, and a curve says whose it is when the pointer rests on it.</p>",
              chart("Loss", "nats per token", _curves(report, "loss")),
              chart("Gradient norm", "before clipping", _curves(report, "grad_norm")),
              chart("Relative difference from the reference",
                    f"of loss or norm; close is {TOLERANCE:.0e}", _differences(report),
                    logarithmic=True),
              "<h2>Worst differences</h2><p>Relative, over all steps; of params as part of the "
              "largest element of the tensor, after the last step.</p>", _table(report),
              "</body></html>\n"]
    return "".join(parts)


def _red_item(result):
    return f"<li><b>{html.escape(result.name)}</b>: {html.escape(result.sentence)}</li>"


def _curves(report, series):
    """One for each outcome: rows with the same hash have the same curve."""
    owners = {}
    for one in report.results:
        if one.hash:
            owners.setdefault(one.hash, []).append(one)
    return [Curve(_names(rows), tuple(step.get(series) for step in report.curves[key][0]),
                  any(one.verdict == RED for one in rows)) for key, rows in owners.items()]


def _names(rows):
    names = sorted({one.name for one in rows})
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _differences(report):
    return [Curve(one.name, one.by_step, one.verdict == RED) for one in report.results
            if any(one.by_step)]


def _table(report):
    rows = ["<table><tr><th>family</th><th>row</th><th>class</th><th>reference</th><th>loss</th>"
            "<th>norm</th><th>params</th><th>verdict</th><th>hash</th></tr>"]
    for one in report.results:
        cells = [f"<td>{html.escape(text)}</td>"
                 for text in (one.family, one.name, one.kind, one.reference)]
        cells += [f"<td class=n>{cell}</td>" for cell in worst_cells(one)]
        cells += [f"<td>{said(one)}</td><td><code>{one.hash[:12]}</code></td>"]
        rows.append(f"<tr{' class=red' if one.verdict == RED else ''}>{''.join(cells)}</tr>")
    return "".join(rows) + "</table>"
