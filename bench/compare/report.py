"""Writes compare.md and the plots next to a compare.json.

    python3 -B -m bench.compare.report runs/compare/DATE/compare.json
"""
import json
import pathlib
import subprocess
import sys

from bench.compare import findings, install, markdown


def one_line(result):
    """A cell for the progress line."""
    finding = findings.judge(result)
    if finding.weft is None:
        return "weft was not measured"
    text = f"weft {markdown.time_text(finding.weft)}"
    if finding.best_peer:
        ratio, low, high = finding.ratio
        text += (f", {finding.best_peer} {markdown.time_text(finding.medians[finding.best_peer])}, ratio {ratio:.2f} "
                 f"[{low:.2f}, {high:.2f}]")
    return text + f", {finding.share:.0%} of the bound"


def write(path, say):
    """Writes the reports beside `path`; say(text) is told what cannot be written."""
    results = json.loads(path.read_text())
    (path.parent / "compare.md").write_text(markdown.render(results))
    if not results["cells"]:
        return
    command = [str(install.venv_python()), "-B", "-m", "bench.compare.plot", str(path)]
    try:
        done = subprocess.run(command, cwd=install.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=600, check=False)
        if done.returncode:
            say("no plots: " + " | ".join(done.stdout.strip().splitlines()[-2:]))
    except (OSError, subprocess.TimeoutExpired) as error:
        say(f"no plots: {error}")


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]).resolve(), print)
