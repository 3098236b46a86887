"""Keep the logs of containers: the current run's and the previous one's, until the pod is gone.

The embedded server answers `pods/log` from `Logs.read` and `Logs.follow`; container contexts write
to a `Log`.
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

MAX_LINES, MAX_BYTES = 10_000, 10 * 1024 * 1024  # kept of one run, at least
TRUE_VALUES = ("true", "1")
WAITING_MESSAGES = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


class LogLine(NamedTuple):
    written: float
    text: str


class Log:
    """Output of one run. Text arrives in any portions, also parts of lines.

    At most twice `MAX_LINES` lines and `MAX_BYTES` bytes are kept; the oldest are dropped.
    """

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
            # Drop whole lines first; a line that is too long loses its beginning.
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
        """Return the log as `pods/log` does, with tailLines, sinceSeconds, sinceTime,
        timestamps and limitBytes.
        """
        lines = [*self._lines, *([self._open] if self._open else [])]
        since = epoch_of(options["sinceTime"]) if options.get("sinceTime") else 0.0
        if options.get("sinceSeconds"):
            since = self._clock.now() - int(options["sinceSeconds"])
        chosen = [line for line in lines if line.written >= since]
        if "tailLines" in options:
            chosen = chosen[len(chosen) - min(int(options["tailLines"]), len(chosen)) :]
        stamped = options.get("timestamps") in TRUE_VALUES
        text = "".join(
            (f"{timestamp_of(line.written, micro=True)} " if stamped else "")
            + line.text
            + ("" if line is self._open else "\n")
            for line in chosen
        )
        return (
            text.encode()[: int(options["limitBytes"])].decode(errors="ignore")
            if "limitBytes" in options
            else text
        )

    def end(self) -> None:
        self._ended = True
        for follower in list(self._followers):
            follower.close()

    def follow(self, options: Mapping[str, str]) -> LogFollower:
        """Return a reader that yields what `text` returns and then everything that is written."""
        follower = LogFollower(
            self._clock,
            self.text(options),
            options,
            on_close=lambda follower: self._followers.pop(follower, None),
            inside_line=self._open is not None,
        )
        if self._ended:
            follower.close()
        elif follower.is_open:
            self._followers[follower] = None
        return follower

    def tail(self, lines: int, limit: int) -> str:
        return self.text({"tailLines": str(lines)}).encode()[-limit:].decode(errors="ignore")


class LogFollower:
    """Asynchronous reader of one log, used by `pods/log?follow`. Ends with the log, or when
    `limitBytes` are read. One reader per instance.
    """

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
        piece = text
        if self._stamped:
            stamped = []
            for line in text.splitlines(keepends=True):
                now = timestamp_of(self._clock.now(), micro=True)
                stamped.append(line if self._inside_line else f"{now} {line}")
                self._inside_line = not line.endswith("\n")
            piece = "".join(stamped)
        if self._bytes_left is not None:
            kept = piece.encode()[: max(self._bytes_left, 0)]
            self._bytes_left -= len(kept)
            if self._bytes_left <= 0:
                self.is_open = False
            piece = kept.decode(errors="ignore")
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

    def _wake(self) -> None:
        if self._reader and not self._reader.done():
            self._reader.set_result(None)


@dataclass(slots=True)
class ContainerLogs:
    current: Log | None = None
    previous: Log | None = None


@dataclass(slots=True)
class PodLogs:
    """Logs of one pod's containers. A new pod of the same name starts with none; its uid tells
    the two apart.
    """

    uid: str
    containers: dict[str, ContainerLogs] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)
    """Reason by container for which it has not run yet."""


class Logs:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pods: dict[Ref, PodLogs] = {}

    def begin(self, pod: Obj, container: str) -> Log:
        """Return the log of a run that starts now; the former current log becomes the previous
        one.
        """
        runs = self._logs_of(pod).containers.setdefault(container, ContainerLogs())
        if runs.current:
            runs.current.end()
        runs.previous, runs.current = runs.current, Log(self._clock)
        return runs.current

    def set_waiting(self, pod: Obj, container: str, reason: str) -> None:
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
        """Return a container's log for the query of `pods/log`. The server has checked that pod
        and container exist.
        """
        return self._find_log(namespace, pod, container, options).text(options)

    def follow(
        self, namespace: str, pod: str, container: str, options: Mapping[str, str]
    ) -> LogFollower:
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
