"""One picture of one or two runs, as SVG that stands in a page: for each resource a line, how much of the cluster is
promised at each major step, and around it a band, from the least to the most utilised node.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from pytest_kscen.scenario.analysis.amounts import PODS, in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_kscen.scenario.analysis.result import Result
    from pytest_kscen.scenario.analysis.series import Series

COLOURS = ("#2563eb", "#d97706")
DASHES = ("", ' stroke-dasharray="6 3"')
WIDTH, HEIGHT = 560, 150
LEFT, TOP, RIGHT, GAP = 52, 30, 14, 46
TICKS = 8
STYLE = (
    'font-family="system-ui, sans-serif" font-size="11" role="img" style="max-width:100%;height:auto;background:#fff;color:#333"'
)
Point = tuple[float, float]


def picture(results: Sequence[Result], names: Sequence[str] = ()) -> str:
    """Of one result, or of two beside each other. How many pods there are is told where nothing else is asked for."""
    resources = in_order({resource for result in results for resource in result.resources})
    resources = [resource for resource in resources if resource != PODS] or resources
    steps = sorted({step for result in results for step in result.timeline.steps})
    if not resources or not steps:
        return _frame(40, ['<text x="10" y="24">no node, or no pod: nothing is promised</text>'], "nothing is promised")
    scale = _Scale(steps[0], steps[-1])
    parts = list(_legend(names))
    for number, resource in enumerate(resources):
        parts += _panel(results, resource, scale, TOP + number * (HEIGHT + GAP) + 10)
    title = f"Allocation of {', '.join(resources)} by major step{', ' + ' and '.join(names) if names else ''}"
    return _frame(TOP + len(resources) * (HEIGHT + GAP) + 10, parts, title)


def _frame(height: int, parts: Sequence[str], title: str) -> str:
    size = f'viewBox="0 0 {LEFT + WIDTH + RIGHT} {height}" width="{LEFT + WIDTH + RIGHT}" height="{height}"'
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {STYLE}>\n<title>{escape(title)}</title>\n{body}\n</svg>\n'


class _Scale:
    """Steps from left to right, each as wide as another."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.end = first, last + 1

    def x(self, step: float) -> float:
        """Where it begins."""
        return LEFT + WIDTH * (step - self.first) / (self.end - self.first)

    @property
    def ticks(self) -> Iterator[int]:
        yield from range(self.first, self.end, -(-(self.end - self.first) // TICKS))


def _legend(names: Sequence[str]) -> Iterator[str]:
    for number, name in enumerate(names):
        x = LEFT + number * 190
        line = f'<line x1="{x}" y1="14" x2="{x + 24}" y2="14" stroke="{COLOURS[number]}" stroke-width="2"{DASHES[number]}/>'
        yield f'{line}<text x="{x + 30}" y="18">{escape(name)}</text>'


def _panel(results: Sequence[Result], resource: str, scale: _Scale, top: int) -> Iterator[str]:
    lines = [(result.allocation(resource), result.spread(resource)) for result in results]
    highest = max(1.0, *(max(line.most, spread.most.most) for line, spread in lines))

    def y(value: float) -> float:
        return top + HEIGHT * (1 - value / highest)

    yield f'<text x="{LEFT}" y="{top - 6}" font-weight="600">{escape(resource)}</text>'
    for percent in (0, 25, 50, 75, 100):
        at = _number(y(percent / 100))
        yield f'<line x1="{LEFT}" y1="{at}" x2="{LEFT + WIDTH}" y2="{at}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 6}" y="{_number(y(percent / 100) + 4)}" text-anchor="end">{percent} %</text>'
    for step in scale.ticks:
        yield f'<text x="{_number(scale.x(step + 0.5))}" y="{top + HEIGHT + 16}" text-anchor="middle">{step}</text>'
    yield f'<text x="{LEFT + WIDTH}" y="{top + HEIGHT + 30}" text-anchor="end" fill="#777">major step</text>'
    for number, (line, spread) in enumerate(lines):
        most = _stairs(spread.most, scale, y, max)
        least = _stairs(spread.least, scale, y, min)
        yield f'<polygon points="{_points([*most, *reversed(least)])}" fill="{COLOURS[number]}" fill-opacity="0.15"/>'
        points = _points(_stairs(line, scale, y, _last))
        yield f'<polyline points="{points}" fill="none" stroke="{COLOURS[number]}" stroke-width="2"{DASHES[number]}/>'


def _stairs(series: Series, scale: _Scale, y: Callable[[float], float], choose: Callable[[list[float]], float]) -> list[Point]:
    """A value holds until the next step. Of steps that are closer than the eye can tell, one value is chosen."""
    columns: dict[float, list[float]] = {}
    for step, value in series.by_step.items():
        columns.setdefault(round(scale.x(step)), []).append(value)
    found: list[Point] = []
    for x, values in columns.items():
        if found:
            found.append((x, found[-1][1]))
        found.append((x, y(choose(values))))
    return [*found, (scale.x(scale.end), found[-1][1])] if found else []


def _last(values: list[float]) -> float:
    return values[-1]


def _points(points: Sequence[Point]) -> str:
    """Corners alone: what lies on a straight line between its neighbours is left out."""
    kept: list[Point] = []
    for point in points:
        while len(kept) > 1 and _in_line(kept[-2], kept[-1], point):
            kept.pop()
        if not kept or kept[-1] != point:
            kept.append(point)
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in kept)


def _in_line(one: Point, two: Point, three: Point) -> bool:
    return one[0] == two[0] == three[0] or one[1] == two[1] == three[1]


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
