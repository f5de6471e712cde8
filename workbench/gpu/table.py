"""A report as lines for people: what ran, then every figure."""
import statistics

from workbench.gpu.probe import LIBRARY


def table(report):
    lines = ["", f"{'section':10} {'state':10} {'seconds':>8} {'cases':>9} {'wrong':>6} {'not run':>8}"]
    for section in report["sections"]:
        lines.append(f"{section['name']:10} {section['state']:10} {section['seconds']:8} {section['cases']:9} {section['wrong']:6} {len(section['skipped']):8}")
    for section in report["sections"]:
        lines += [f"  {section['name']}, wrong: {error}" for check in section["checks"].values() for error in check["errors"]]
        lines += [f"  {section['name']}, step {step['name']} {step['state']}: {step['why']}" for step in section["steps"]
                  if step["state"] in ("failed", "hung", "killed") and "why" in step]
        lines += [f"  {section['name']}, step {step['name']} failed: it ended with {step['code']}" for step in section["steps"]
                  if step["state"] == "failed" and "code" in step]
        lines += [f"  {section['name']}, not run: {reason}" for reason in section["skipped"]]
    figures = [figure for section in report["sections"] for figure in section["figures"]]
    if figures:
        lines += ["", f"{'figure':40} {'bytes':>14} {'us, median':>12} {'GB/s':>9} {'of bound':>9} {'bar':>5}"]
        lines += [figure_line(figure) for figure in figures]
    cards = ", ".join(report["cards"])
    lines += ["", f"{cards}; commit {report['commit'][:12]}{' with changes' if report['dirty'] else ''}; {report['ended']} in {report['seconds']} s",
              f"to keep it: docs/perf/gpu/{kept_name(report)}" if report["library"] == LIBRARY else "of no device: there is nothing to keep"]
    return "\n".join(lines)


def figure_line(figure):
    median = statistics.median(figure["us"])
    moved = figure.get("bytes", 0)
    rate = f"{moved / median / 1e3:9.1f}" if moved and median else f"{'':9}"
    ratio = f"{figure['ratio']:9.2f}" if "ratio" in figure else f"{'':9}"
    bar = ""
    if "bar" in figure and "ratio" in figure:
        bar = f"{figure['bar']:5.2f}" + ("" if figure["ratio"] >= figure["bar"] else "  below it")
    return f"{figure['name']:40} {moved:14} {median:12.2f} {rate} {ratio} {bar}".rstrip()


def kept_name(report):
    """In docs/perf/gpu: <date>-<card>.json."""
    card = "".join(letter if letter.isalnum() else "-" for letter in report["cards"][0].lower())
    return f"{report['date']}-{'-'.join(filter(None, card.split('-')))}.json"
