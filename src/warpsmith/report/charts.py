"""Charts as inline SVG. Numbers and escaped names only go in."""

import html
import math
from collections.abc import Mapping, Sequence

W, H, LEFT, BOTTOM = 420, 240, 46, 30


def scatter(points: Sequence[tuple[float, float, str]], x_name: str, y_name: str) -> str:
    """Both axes logarithmic; points that are not positive and finite are left out, and counted."""
    good = [(x, y, name) for x, y, name in points if x > 0 and y > 0 and math.isfinite(x * y)]
    if not good:
        return "<p class=dim>Nothing was measured.</p>"
    xs, ys = _range([p[0] for p in good]), _range([p[1] for p in good])
    dots = "".join(
        f'<circle class="dot" cx="{_x(_at(x, xs)):.1f}" cy="{_y(_at(y, ys)):.1f}" r="4">'
        f"<title>{html.escape(name)}: {x:.3g}, {y:.3g}</title></circle>"
        for x, y, name in good
    )
    left_out = (
        f" ({len(points) - len(good)} without a positive value left out)" if len(good) < len(points) else ""
    )
    ends = (f"{xs[0]:.1g}", f"{xs[1]:.1g}", f"{ys[0]:.1g}", f"{ys[1]:.1g}")
    return _svg(dots, ends, f"{x_name} → {y_name}{left_out}")


COLOURS = 6


def curve(lines: Mapping[str, Sequence[tuple[float, float]]], name: str) -> str:
    """A line each through points whose y lies in 0…1, x from 0; named below where there are several."""
    most = max((x for points in lines.values() for x, _ in points), default=0) or 1
    drawn = []
    for i, (title, points) in enumerate(lines.items()):
        path = " ".join(f"{_x(x / most):.1f},{_y(y):.1f}" for x, y in points)
        drawn.append(
            f'<polyline class="line c{i % COLOURS}" points="{path}"><title>{html.escape(title)}</title></polyline>'
        )
    keys = "".join(
        f'<span class="c{i % COLOURS}">▬ {html.escape(t)}</span> ' for i, t in enumerate(lines) if t
    )
    return _svg("".join(drawn), ("0", f"{most:g}", "0", "1"), name, keys if len(lines) > 1 else "")


def histogram(values: Sequence[float], name: str, bins: int = 20) -> str:
    """How many values lie where; empty where there are fewer than two."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, int((value - low) / ((high - low) or 1) * bins))] += 1
    wide, most = (W - LEFT - 8) / bins, max(counts)
    bars = "".join(
        f'<rect class="bar" x="{LEFT + i * wide:.1f}" y="{_y(n / most):.1f}" width="{wide - 1:.1f}" '
        f'height="{_y(0) - _y(n / most):.1f}"/>'
        for i, n in enumerate(counts)
    )
    return _svg(bars, (f"{low:.4g}", f"{high:.4g}", "0", str(most)), name)


def _range(values: Sequence[float]) -> tuple[float, float]:
    return min(values) / 1.2, max(values) * 1.2


def _at(value: float, ends: tuple[float, float]) -> float:
    return math.log(value / ends[0]) / math.log(ends[1] / ends[0])


def _x(share: float) -> float:
    return LEFT + share * (W - LEFT - 8)


def _y(share: float) -> float:
    return H - BOTTOM - share * (H - BOTTOM - 8)


def _svg(inside: str, ends: tuple[str, str, str, str], name: str, keys: str = "") -> str:
    x0, x1, y0, y1 = ends
    axes = f'<path class="axis" fill="none" d="M{LEFT},8V{H - BOTTOM}H{W - 8}"/>'
    said = (
        f'<text x="{LEFT}" y="{H - 12}">{x0}</text><text x="{W - 8}" y="{H - 12}" text-anchor="end">{x1}</text>'
        f'<text x="{LEFT - 4}" y="{H - BOTTOM}" text-anchor="end">{y0}</text>'
        f'<text x="{LEFT - 4}" y="16" text-anchor="end">{y1}</text>'
    )
    label = html.escape(name)
    svg = f'<svg viewBox="0 0 {W} {H}" role="img" aria-label="{label}">{axes}{inside}{said}</svg>'
    return f"<figure>{svg}<figcaption>{label}{f'<br>{keys}' if keys else ''}</figcaption></figure>"
