"""Results as text, Markdown, CSV and JSON lines, as flat rows, and as an SVG chart."""

from __future__ import annotations

import csv
import io
from html import escape
from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.scenario.analysis.replay import PODS, in_order, name_of, steps, target_of
from pytest_kscen.scenario.analysis.utilization import filled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pytest_kscen.scenario.analysis.pods import PodAttempt, PodHistory
    from pytest_kscen.scenario.analysis.result import Result
    from pytest_kscen.scenario.analysis.utilization import Series
    from pytest_kscen.scenario.models import TimelineEvent


Row = dict[str, Any]
"""Row of a table: each value is a string, a number, or None."""


def as_text(rows: Sequence[Row]) -> str:
    if not rows:
        return "(none)\n"
    names = list(_names(rows))
    cells = [names, *([format_value(row.get(name)) for name in names] for row in rows)]
    widths = [max(len(line[place]) for line in cells) for place in range(len(names))]
    right = [all(_is_number(row.get(name)) for row in rows) for name in names]
    lines = [
        "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in cells
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:], ""])


def as_markdown(rows: Sequence[Row]) -> str:
    if not rows:
        return "(none)\n"
    names = list(_names(rows))
    rule = ["---:" if all(_is_number(row.get(name)) for row in rows) else "---" for name in names]
    lines = [
        names,
        rule,
        *([format_value(row.get(name)).replace("|", r"\|") for name in names] for row in rows),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def as_csv(rows: Iterable[Row]) -> str:
    rows = list(rows)
    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(_names(rows)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_json_lines(rows: Iterable[Row]) -> str:
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows).decode()


def format_value(value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, float):
        text = f"{value:.4f}".rstrip("0").rstrip(".")
        return "0" if text == "-0" else text
    return str(value)


def _names(rows: Iterable[Row]) -> dict[str, None]:
    return {name: None for row in rows for name in row}


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, int | float)


def events(result: Result) -> Iterator[Row]:
    for event in result.timeline:
        kind, what, node = _describe(event)
        step = {"step": event.step.major, "minor": event.step.minor}
        yield {
            **step,
            "id": event.id,
            "controller": event.controller or "",
            "event": kind,
            "object": what,
            "node": node,
        }


def _describe(event: TimelineEvent) -> tuple[str, str, str]:
    """Return an event's kind, the object that it is about as kind/namespace/name, and the node for
    scheduling events; empty texts where there is none.
    """
    for kind, made in (("create", event.create), ("patch", event.patch)):
        if made and made.result:
            metadata = made.result["metadata"]
            return (
                kind,
                "/".join(
                    filter(None, (made.result["kind"], metadata.get("namespace"), metadata["name"]))
                ),
                "",
            )
    if event.delete:
        metadata = event.delete.operation["objectMeta"]
        kind = target_of(event.delete.operation)[0]
        return (
            "delete",
            "/".join(filter(None, (kind, metadata.get("namespace"), metadata["name"]))),
            "",
        )
    if event.pod_scheduled:
        return (
            "podScheduled",
            "/".join(("Pod", *name_of(event.pod_scheduled.pod))),
            event.pod_scheduled.bound_to,
        )
    if event.pod_unscheduled:
        return (
            "podUnscheduled",
            "/".join(("Pod", *name_of(event.pod_unscheduled.pod))),
            event.pod_unscheduled.bound_to,
        )
    if event.pod_attempted:
        chosen = (event.pod_attempted.results or {}).get("selected-node") or ""
        return "podAttempted", "/".join(("Pod", *name_of(event.pod_attempted.pod))), str(chosen)
    return "done", "", ""


def pods(result: Result) -> Iterator[Row]:
    for history in result.pods:
        yield {
            **_pod(history),
            "state": history.state,
            "node": history.node,
            "priority": history.priority,
            "created": history.created.major,
            "scheduled": history.scheduled.major if history.scheduled else None,
            "scheduled_minor": history.scheduled.minor if history.scheduled else None,
            "gone": history.gone.major if history.gone else None,
            "waited": None if history.is_given else history.major_steps,
            "waited_minor": None if history.is_given else history.minor_steps,
            "attempts": len(history.attempts),
            "why": history.why_not,
        }


def _pod(history: PodHistory) -> Row:
    return {"namespace": history.namespace, "pod": history.name, "number": history.number}


def attempts(result: Result) -> Iterator[Row]:
    for history, attempt in _attempts(result):
        filtered, kept = len(attempt.filters), len(attempt.feasible)
        best = next(iter(attempt.totals.values()), None)
        yield {
            **_attempt(history, attempt),
            "node": attempt.node,
            "nominated": attempt.nominated,
            "nodes_filtered": filtered,
            "nodes_feasible": kept,
            "best_score": best,
            "why": attempt.why_not,
        }


def filters(result: Result) -> Iterator[Row]:
    for history, attempt in _attempts(result):
        for node, by in attempt.filters.items():
            for plugin, verdict in by.items():
                yield {
                    **_attempt(history, attempt),
                    "node": node,
                    "plugin": plugin,
                    "verdict": verdict,
                }


def scores(result: Result) -> Iterator[Row]:
    """Yield a row for each score: as the plugin gave it, normalised, and times its weight."""
    for history, attempt in _attempts(result):
        raw = attempt.scores
        for node, by in attempt.final_scores.items():
            for plugin, final in by.items():
                score = raw.get(node, {}).get(plugin)
                is_chosen = int(node == attempt.node)
                yield {
                    **_attempt(history, attempt),
                    "node": node,
                    "plugin": plugin,
                    "score": score,
                    "final_score": final,
                    "chosen": is_chosen,
                }


def _attempts(result: Result) -> Iterator[tuple[PodHistory, PodAttempt]]:
    for history in result.pods:
        for attempt in history.attempts:
            yield history, attempt


def _attempt(history: PodHistory, attempt: PodAttempt) -> Row:
    return {
        **_pod(history),
        "attempt": attempt.number,
        "step": attempt.step.major,
        "minor": attempt.step.minor,
    }


def by_step(result: Result) -> Iterator[Row]:
    """Yield a row for each major step: nodes, pods and pending pods at its end, and for each
    resource its allocation, imbalance, range and fragmentation.
    """
    counted = [
        (step, len(scene.nodes), len(scene.pods), len(scene.pending))
        for step, scene in steps(result.timeline)
    ]
    numbers = [step for step, *_ in counted]
    columns: dict[str, list[float | None]] = {}
    for resource in result.resources:
        columns[f"allocation_{resource}"] = filled(result.allocation(resource), numbers)
        columns[f"imbalance_{resource}"] = filled(result.imbalance(resource), numbers)
        columns[f"range_{resource}"] = filled(result.spread(resource).range, numbers)
        columns[f"fragmentation_{resource}"] = filled(result.fragmentation(resource), numbers)
        columns[f"stranded_{resource}"] = filled(
            result.fragmentation(resource, pending=True), numbers
        )
    for place, (step, nodes, pods, pending) in enumerate(counted):
        values = {name: column[place] for name, column in columns.items()}
        yield {"step": step, "nodes": nodes, "pods": pods, "pending": pending, **values}


def utilisation(result: Result) -> Iterator[Row]:
    for resource in result.resources:
        for node, series in result.utilisation(resource).items():
            for step, value in series.by_step.items():
                yield {"node": node, "resource": resource, "step": step, "utilisation": value}
            if series.ended is not None:
                yield {
                    "node": node,
                    "resource": resource,
                    "step": series.ended,
                    "utilisation": None,
                }


def preemptions(result: Result) -> Iterator[Row]:
    for each in result.preemptions:
        where = {"namespace": each.namespace, "pod": each.pod, "node": each.node}
        yield {
            **where,
            "step": each.step.major,
            "minor": each.step.minor,
            "by": each.by,
            "evidence": each.evidence,
        }


TABLES: dict[str, Callable[[Result], Iterator[Row]]] = {
    "events": events,
    "pods": pods,
    "attempts": attempts,
    "filters": filters,
    "scores": scores,
    "steps": by_step,
    "utilisation": utilisation,
    "preemptions": preemptions,
}


COLOURS = ("#2563eb", "#d97706")
DASHES = ("", ' stroke-dasharray="6 3"')
WIDTH, HEIGHT = 560, 150
LEFT, TOP, RIGHT, GAP = 52, 30, 14, 46
TICKS = 8
STYLE = (
    'font-family="system-ui, sans-serif" font-size="11" role="img" '
    'style="max-width:100%;height:auto;background:#fff;color:#333"'
)
Point = tuple[float, float]


def picture(results: Sequence[Result], names: Sequence[str] = ()) -> str:
    """Draw one or two results as one SVG for use in a page.

    For each resource a line shows its allocation by major step, and a band around it the range from
    the least to the most utilised node. Without resources, the number of pods is drawn.
    """
    resources = in_order({resource for result in results for resource in result.resources})
    resources = [resource for resource in resources if resource != PODS] or resources
    steps = sorted({step for result in results for step in result.timeline.steps})
    if not resources or not steps:
        return _frame(
            40,
            ['<text x="10" y="24">no node, or no pod: nothing is promised</text>'],
            "nothing is promised",
        )
    scale = _Scale(steps[0], steps[-1])
    parts: list[str] = []
    for number, name in enumerate(names):
        x = LEFT + number * 190
        line = (
            f'<line x1="{x}" y1="14" x2="{x + 24}" y2="14" stroke="{COLOURS[number]}" '
            f'stroke-width="2"{DASHES[number]}/>'
        )
        parts.append(f'{line}<text x="{x + 30}" y="18">{escape(name)}</text>')
    for number, resource in enumerate(resources):
        parts += _panel(results, resource, scale, TOP + number * (HEIGHT + GAP) + 10)
    title = (
        f"Allocation of {', '.join(resources)} by major "
        f"step{', ' + ' and '.join(names) if names else ''}"
    )
    return _frame(TOP + len(resources) * (HEIGHT + GAP) + 10, parts, title)


def _frame(height: int, parts: Sequence[str], title: str) -> str:
    size = (
        f'viewBox="0 0 {LEFT + WIDTH + RIGHT} {height}" width="{LEFT + WIDTH + RIGHT}" '
        f'height="{height}"'
    )
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
        f"{STYLE}>\n<title>{escape(title)}</title>\n{body}\n</svg>\n"
    )


class _Scale:
    """Horizontal scale of a chart: major steps from left to right, all of equal width in pixels."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.end = first, last + 1

    def x(self, step: float) -> float:
        return LEFT + WIDTH * (step - self.first) / (self.end - self.first)

    @property
    def ticks(self) -> Iterator[int]:
        yield from range(self.first, self.end, -(-(self.end - self.first) // TICKS))


def _panel(results: Sequence[Result], resource: str, scale: _Scale, top: int) -> Iterator[str]:
    lines = [(result.allocation(resource), result.spread(resource)) for result in results]
    highest = max(1.0, *(max(line.most, spread.most.most) for line, spread in lines))

    def y(value: float) -> float:
        return top + HEIGHT * (1 - value / highest)

    yield f'<text x="{LEFT}" y="{top - 6}" font-weight="600">{escape(resource)}</text>'
    for percent in (0, 25, 50, 75, 100):
        at = _number(y(percent / 100))
        yield f'<line x1="{LEFT}" y1="{at}" x2="{LEFT + WIDTH}" y2="{at}" stroke="#ddd"/>'
        yield (
            f'<text x="{LEFT - 6}" y="{_number(y(percent / 100) + 4)}" '
            f'text-anchor="end">{percent} %</text>'
        )
    for step in scale.ticks:
        yield (
            f'<text x="{_number(scale.x(step + 0.5))}" y="{top + HEIGHT + 16}" '
            f'text-anchor="middle">{step}</text>'
        )
    yield (
        f'<text x="{LEFT + WIDTH}" y="{top + HEIGHT + 30}" text-anchor="end" '
        'fill="#777">major step</text>'
    )
    for number, (line, spread) in enumerate(lines):
        most = _step_function(spread.most, scale, y, max)
        least = _step_function(spread.least, scale, y, min)
        yield (
            f'<polygon points="{_points([*most, *reversed(least)])}" fill="{COLOURS[number]}" '
            'fill-opacity="0.15"/>'
        )
        points = _points(_step_function(line, scale, y, lambda values: values[-1]))
        yield (
            f'<polyline points="{points}" fill="none" stroke="{COLOURS[number]}" '
            f'stroke-width="2"{DASHES[number]}/>'
        )


def _step_function(
    series: Series,
    scale: _Scale,
    y: Callable[[float], float],
    choose: Callable[[list[float]], float],
) -> list[Point]:
    """Draw a step function: a value holds until the next step.

    Of steps that are closer than a pixel, one value is chosen.
    """
    columns: dict[float, list[float]] = {}
    for step, value in series.by_step.items():
        columns.setdefault(round(scale.x(step)), []).append(value)
    found: list[Point] = []
    for x, values in columns.items():
        if found:
            found.append((x, found[-1][1]))
        found.append((x, y(choose(values))))
    return [*found, (scale.x(scale.end), found[-1][1])] if found else []


def _points(points: Sequence[Point]) -> str:
    """Corners alone: what lies on a straight line between its neighbours is left out."""
    kept: list[Point] = []
    for point in points:
        while len(kept) > 1 and any(
            one == two == three for one, two, three in zip(kept[-2], kept[-1], point, strict=True)
        ):
            kept.pop()
        if not kept or kept[-1] != point:
            kept.append(point)
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in kept)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
