"""Counters, gauges and histograms, and how Prometheus reads them: its text format, version 0.0.4."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

Labels: TypeAlias = tuple[str, ...]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0)


@dataclass(slots=True)
class Family:
    """A metric with its labels."""

    name: str
    help: str
    kind: str
    labels: Labels = ()
    values: dict[Labels, float] = field(default_factory=dict)

    def add(self, amount: float, *labels: str) -> None:
        self.values[labels] = self.values.get(labels, 0) + amount

    def samples(self) -> Iterator[str]:
        for labels, value in sorted(self.values.items()):
            yield sample(self.name, dict(zip(self.labels, labels, strict=True)), value)

    def text(self) -> str:
        head = [f"# HELP {self.name} {self.help}", f"# TYPE {self.name} {self.kind}"]
        return "\n".join([*head, *self.samples()])


@dataclass(slots=True)
class Histogram:
    """Of lengths of time."""

    name: str
    help: str
    labels: Labels = ()
    counts: dict[Labels, list[int]] = field(default_factory=dict)
    """In each bucket, and above them all."""
    sums: dict[Labels, float] = field(default_factory=dict)

    def observe(self, seconds: float, *labels: str) -> None:
        counts = self.counts.setdefault(labels, [0] * (len(SECONDS) + 1))
        counts[bisect.bisect_left(SECONDS, seconds)] += 1
        self.sums[labels] = self.sums.get(labels, 0.0) + seconds

    def text(self) -> str:
        lines = [f"# HELP {self.name} {self.help}", f"# TYPE {self.name} histogram"]
        for labels, counts in sorted(self.counts.items()):
            named = dict(zip(self.labels, labels, strict=True))
            below = 0
            for bound, count in zip((*(f"{bound:g}" for bound in SECONDS), "+Inf"), counts, strict=True):
                below += count
                lines.append(sample(f"{self.name}_bucket", {**named, "le": bound}, below))
            lines.append(sample(f"{self.name}_sum", named, self.sums[labels]))
            lines.append(sample(f"{self.name}_count", named, below))
        return "\n".join(lines)


def sample(name: str, labels: dict[str, str], value: float) -> str:
    """One line."""
    said = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{said}}} {value:.12g}" if said else f"{name} {value:.12g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
