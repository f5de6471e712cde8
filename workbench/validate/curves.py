"""A chart as SVG text: curves over steps, on top of each other.

    chart("loss", "nats per token", [Curve("ddp x2 and 7 more", (5.8, 5.1, ...), red=False)])

Curves of red rows are drawn last and in red. Values that are no number leave a gap.
"""
import dataclasses
import html
import math

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 620, 300, 64, 28, 28
_COLOURS = ("#1f77b4", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf")
_TICKS = 4


@dataclasses.dataclass(frozen=True)
class Curve:
    name: str
    values: tuple  # of steps 1, 2, ...
    red: bool = False


def chart(title, unit, curves, logarithmic=False):
    curves = [dataclasses.replace(curve, values=_scaled(curve.values, logarithmic))
              for curve in curves]
    shown = [value for curve in curves for value in curve.values if value is not None]
    low, high = (min(shown), max(shown)) if shown else (0, 1)
    if high == low:
        low, high = low - 0.5, high + 0.5
    last = max([len(curve.values) for curve in curves] + [2])

    def place(step, value):
        x = _LEFT + (step - 1) * (_WIDTH - _LEFT - 10) / (last - 1)
        y = _TOP + (high - value) * (_HEIGHT - _TOP - _BOTTOM) / (high - low)
        return f"{x:.1f},{y:.1f}"

    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
             f'xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="12">',
             f'<text x="{_LEFT}" y="16" font-weight="bold">{html.escape(title)}</text>',
             f'<text x="{_WIDTH - 10}" y="16" text-anchor="end">{html.escape(unit)}</text>']
    for tick in range(_TICKS + 1):
        value = low + (high - low) * tick / _TICKS
        left, right = place(1, value), place(last, value)
        label = f"{10 ** value:.0e}" if logarithmic else f"{value:.4g}"
        parts.append(f'<polyline points="{left} {right}" stroke="#ddd" fill="none"/>'
                     f'<text x="{_LEFT - 6}" y="{float(left.split(",")[1]) + 4:.1f}" '
                     f'text-anchor="end">{label}</text>')
    for step in sorted({1, (last + 1) // 2, last}):
        x = place(step, low).split(",")[0]
        parts.append(f'<text x="{x}" y="{_HEIGHT - 8}" text-anchor="middle">{step}</text>')
    for number, curve in enumerate(sorted(curves, key=lambda curve: curve.red)):
        colour = "#d00000" if curve.red else _COLOURS[number % len(_COLOURS)]
        parts += _drawn(curve, colour, place)
    return "".join(parts) + "</svg>"


def _scaled(values, logarithmic):
    """None for what has no place: no number, and on a logarithmic axis zero."""
    def one(value):
        if value is None or not math.isfinite(value) or logarithmic and value <= 0:
            return None
        return math.log10(value) if logarithmic else value

    return tuple(one(value) for value in values)


def _drawn(curve, colour, place):
    width = 2.5 if curve.red else 1.2
    runs = [[]]
    for step, value in enumerate(curve.values, 1):
        if value is None:
            runs.append([])
        else:
            runs[-1].append(place(step, value))
    title = f"<title>{html.escape(curve.name)}</title>"
    return [f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" '
            f'stroke-width="{width}" stroke-linecap="round">{title}</polyline>'
            for points in runs if points]
