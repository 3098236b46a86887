"""What containers have written: the log of each container's current run and of the one before,
until the pod is gone.

`Logs.read` is what an embedded server answers `pods/log` from.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.clock import epoch_of, timestamp_of
from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kscen.clock import Clock
    from pytest_kscen.objects.resources import Obj

MAX_LINES, MAX_BYTES = 10_000, 10 * 1024 * 1024  # that a node keeps of one run, or twice as much
TRUE_VALUES = ("true", "1")
WAITING_MESSAGES = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


class LogLine(NamedTuple):
    """One line and when it was begun."""

    written: float
    text: str


class Log:
    """One run's output. Text comes as it is written, in parts of lines or in many."""

    __slots__ = ("_clock", "_ended", "_followers", "_lines", "_open", "_size")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines: list[LogLine] = []
        self._open: LogLine | None = None
        self._size = 0
        self._followers: dict[LogFollower, None] = {}
        self._ended = False

    def write(self, text: str) -> None:
        for follower in self._followers:
            follower.feed(text)
        *whole, rest = text.split("\n")
        for part in whole:
            begun = self._open or LogLine(self._clock.now(), "")
            self._lines.append(LogLine(begun.written, begun.text + part))
            self._open = None
        if rest:
            begun = self._open or LogLine(self._clock.now(), "")
            self._open = LogLine(begun.written, begun.text + rest)
        self._size += len(text)
        if len(self._lines) > 2 * MAX_LINES or self._size > 2 * MAX_BYTES:
            # Whole lines go first; a line that is too long by itself loses its beginning.
            if self._open:
                self._open = LogLine(self._open.written, self._open.text[-MAX_BYTES:])
            self._size = len(self._open.text) if self._open else 0
            kept: list[LogLine] = []
            for line in reversed(self._lines[-MAX_LINES:]):
                if self._size >= MAX_BYTES:
                    break
                kept.append(LogLine(line.written, line.text[-(MAX_BYTES - self._size) :]))
                self._size += len(kept[-1].text) + 1
            self._lines = kept[::-1]

    def text(self, options: Mapping[str, str]) -> str:
        """With the query of `pods/log`: tailLines, sinceSeconds, sinceTime, timestamps,
        limitBytes.
        """
        lines = [*self._lines, *([self._open] if self._open else [])]
        since = self._since(options)
        chosen = [line for line in lines if line.written >= since]
        if "tailLines" in options:
            chosen = chosen[len(chosen) - min(int(options["tailLines"]), len(chosen)) :]
        stamped = options.get("timestamps") in TRUE_VALUES
        text = "".join(
            _format_line(line, stamped=stamped, ended=line is not self._open) for line in chosen
        )
        return (
            text.encode()[: int(options["limitBytes"])].decode(errors="ignore")
            if "limitBytes" in options
            else text
        )

    def end(self) -> None:
        """Nothing more is going to be written."""
        self._ended = True
        for follower in list(self._followers):
            follower.close()

    def follow(self, options: Mapping[str, str]) -> LogFollower:
        """What `text` says, and then what is written."""
        follower = LogFollower(
            self._clock,
            self.text(options),
            options,
            on_close=self._forget,
            inside_line=self._open is not None,
        )
        if self._ended:
            follower.close()
        elif follower.is_open:
            self._followers[follower] = None
        return follower

    def _forget(self, follower: LogFollower) -> None:
        self._followers.pop(follower, None)

    def tail(self, lines: int, limit: int) -> str:
        """The end of it, at most so many lines and bytes."""
        return self.text({"tailLines": str(lines)}).encode()[-limit:].decode(errors="ignore")

    def _since(self, options: Mapping[str, str]) -> float:
        if options.get("sinceSeconds"):
            return self._clock.now() - int(options["sinceSeconds"])
        return epoch_of(options["sinceTime"]) if options.get("sinceTime") else 0.0


def _format_line(line: LogLine, *, stamped: bool, ended: bool) -> str:
    return (
        (f"{timestamp_of(line.written, micro=True)} " if stamped else "")
        + line.text
        + ("\n" if ended else "")
    )


class LogFollower:
    """Reads along with one log, until it ends or as many bytes are read as were asked for."""

    def __init__(
        self,
        clock: Clock,
        text_so_far: str,
        options: Mapping[str, str],
        *,
        on_close: Callable[[LogFollower], None],
        inside_line: bool,
    ) -> None:
        self.is_open = True
        self._clock = clock
        self._leave = on_close
        self._stamped = options.get("timestamps") in TRUE_VALUES
        self._bytes_left = (
            int(options["limitBytes"]) - len(text_so_far.encode())
            if "limitBytes" in options
            else None
        )
        self._inside_line = inside_line
        self._pieces = [text_so_far] if text_so_far else []
        self._reader: asyncio.Future[None] | None = None
        if self._bytes_left is not None and self._bytes_left <= 0:
            self.is_open = False

    def feed(self, text: str) -> None:
        piece = self._within_limit(self._stamp(text) if self._stamped else text)
        if piece:
            self._pieces.append(piece)
            self._wake()

    def close(self) -> None:
        self.is_open = False
        self._leave(self)
        self._wake()

    async def __anext__(self) -> str:
        while not self._pieces:
            if not self.is_open:
                raise StopAsyncIteration
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        pieces, self._pieces = self._pieces, []
        return "".join(pieces)

    def _stamp(self, text: str) -> str:
        stamped = []
        for line in text.splitlines(keepends=True):
            stamped.append(
                line
                if self._inside_line
                else f"{timestamp_of(self._clock.now(), micro=True)} {line}"
            )
            self._inside_line = not line.endswith("\n")
        return "".join(stamped)

    def _within_limit(self, piece: str) -> str:
        if self._bytes_left is None:
            return piece
        kept = piece.encode()[: max(self._bytes_left, 0)]
        self._bytes_left -= len(kept)
        if self._bytes_left <= 0:
            self.is_open = False
        return kept.decode(errors="ignore")

    def _wake(self) -> None:
        if self._reader and not self._reader.done():
            self._reader.set_result(None)


@dataclass(slots=True)
class ContainerLogs:
    """The logs of one container: this run's and the last one's."""

    current: Log | None = None
    previous: Log | None = None


@dataclass(slots=True)
class PodLogs:
    """The logs of one pod's containers."""

    uid: str
    containers: dict[str, ContainerLogs] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)
    """Why containers that have not run yet have not."""


class Logs:
    """All logs of a cluster's machines."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pods: dict[Ref, PodLogs] = {}

    def begin(self, pod: Obj, container: str) -> Log:
        """The log of a run that starts now."""
        runs = self._logs_of(pod).containers.setdefault(container, ContainerLogs())
        if runs.current:
            runs.current.end()
        runs.previous, runs.current = runs.current, Log(self._clock)
        return runs.current

    def set_waiting(self, pod: Obj, container: str, reason: str) -> None:
        """There will be none before this is mended."""
        self._logs_of(pod).waiting[container] = reason

    def _logs_of(self, pod: Obj) -> PodLogs:
        ref, uid = Ref.of(pod), pod["metadata"]["uid"]
        if ref not in self._pods or self._pods[ref].uid != uid:
            self._pods[ref] = PodLogs(uid)
        return self._pods[ref]

    def forget(self, pod: Obj) -> None:
        ref = Ref.of(pod)
        if ref in self._pods and self._pods[ref].uid == pod["metadata"]["uid"]:
            for runs in self._pods.pop(ref).containers.values():
                if runs.current:
                    runs.current.end()

    async def read(
        self, namespace: str, pod: str, container: str, options: Mapping[str, str]
    ) -> str:
        """What a container has written, with the query of `pods/log`; the server has found pod
        and container to exist.
        """
        return self._find_log(namespace, pod, container, options).text(options)

    def follow(
        self, namespace: str, pod: str, container: str, options: Mapping[str, str]
    ) -> LogFollower:
        """The same, and what it writes from now on."""
        return self._find_log(namespace, pod, container, options).follow(options)

    def _find_log(
        self, namespace: str, pod: str, container: str, options: Mapping[str, str]
    ) -> Log:
        logs = self._pods.get(Ref(namespace, pod))
        runs = logs.containers.get(container) if logs else None
        if options.get("previous") in TRUE_VALUES:
            if runs is None or runs.previous is None:
                raise BadRequest(
                    f'previous terminated container "{container}" in pod "{pod}" not found'
                )
            return runs.previous
        if runs is None or runs.current is None:
            reason = (
                logs.waiting.get(container, "ContainerCreating") if logs else "ContainerCreating"
            )
            raise BadRequest(
                f'container "{container}" in pod "{pod}" is waiting to start: '
                f"{WAITING_MESSAGES.get(reason, reason)}"
            )
        return runs.current
