"""What containers have written: the log of each container's current run and of the one before, until the pod is gone.

`Logs.read` is what an embedded server answers `pods/log` from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.clock import epoch_of, timestamp_of
from pytest_kscen.kube.informer import Ref
from pytest_kscen.objects.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.clock import Clock
    from pytest_kscen.objects.resources import Obj

LINES = 10_000  # that a node keeps of one run, or a few more
TRUE = ("true", "1")


class Line(NamedTuple):
    """One line and when it was begun."""

    written: float
    text: str


class Log:
    """One run's output. Text comes as it is written, in parts of lines or in many."""

    __slots__ = ("_clock", "_lines", "_open")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines: list[Line] = []
        self._open: Line | None = None

    def write(self, text: str) -> None:
        *whole, rest = text.split("\n")
        for part in whole:
            begun = self._open or Line(self._clock.now(), "")
            self._lines.append(Line(begun.written, begun.text + part))
            self._open = None
        if len(self._lines) > 2 * LINES:
            del self._lines[:-LINES]
        if rest:
            begun = self._open or Line(self._clock.now(), "")
            self._open = Line(begun.written, begun.text + rest)

    def text(self, options: Mapping[str, str]) -> str:
        """With the query of `pods/log`: tailLines, sinceSeconds, sinceTime, timestamps, limitBytes."""
        lines = [*self._lines, *([self._open] if self._open else [])]
        since = self._since(options)
        chosen = [line for line in lines if line.written >= since]
        if "tailLines" in options:
            chosen = chosen[len(chosen) - min(int(options["tailLines"]), len(chosen)) :]
        stamped = options.get("timestamps") in TRUE
        text = "".join(_shown(line, stamped=stamped, ended=line is not self._open) for line in chosen)
        return text.encode()[: int(options["limitBytes"])].decode(errors="ignore") if "limitBytes" in options else text

    def tail(self, lines: int, limit: int) -> str:
        """The end of it, at most so many lines and bytes."""
        return self.text({"tailLines": str(lines)}).encode()[-limit:].decode(errors="ignore")

    def _since(self, options: Mapping[str, str]) -> float:
        if options.get("sinceSeconds"):
            return self._clock.now() - int(options["sinceSeconds"])
        return epoch_of(options["sinceTime"]) if options.get("sinceTime") else 0.0


def _shown(line: Line, *, stamped: bool, ended: bool) -> str:
    return (f"{timestamp_of(line.written, micro=True)} " if stamped else "") + line.text + ("\n" if ended else "")


@dataclass(slots=True)
class Runs:
    """The logs of one container: this run's and the last one's."""

    current: Log | None = None
    previous: Log | None = None


@dataclass(slots=True)
class PodLogs:
    """The logs of one pod's containers."""

    uid: str
    containers: dict[str, Runs] = field(default_factory=dict)


class Logs:
    """All logs of a cluster's machines."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pods: dict[Ref, PodLogs] = {}

    def begin(self, pod: Obj, container: str) -> Log:
        """The log of a run that starts now."""
        ref, uid = Ref.of(pod), pod["metadata"]["uid"]
        if ref not in self._pods or self._pods[ref].uid != uid:
            self._pods[ref] = PodLogs(uid)
        runs = self._pods[ref].containers.setdefault(container, Runs())
        runs.previous, runs.current = runs.current, Log(self._clock)
        return runs.current

    def forget(self, pod: Obj) -> None:
        ref = Ref.of(pod)
        if ref in self._pods and self._pods[ref].uid == pod["metadata"]["uid"]:
            del self._pods[ref]

    async def read(self, namespace: str, pod: str, container: str, options: Mapping[str, str]) -> str:
        """What a container has written, with the query of `pods/log`; the server has found pod and container to exist."""
        logs = self._pods.get(Ref(namespace, pod))
        runs = logs.containers.get(container) if logs else None
        if options.get("previous") in TRUE:
            if runs is None or runs.previous is None:
                raise BadRequest(f'previous terminated container "{container}" in pod "{pod}" not found')
            return runs.previous.text(options)
        if runs is None or runs.current is None:
            raise BadRequest(f'container "{container}" in pod "{pod}" is waiting to start: ContainerCreating')
        return runs.current.text(options)
