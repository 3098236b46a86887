"""What a command reads and where it writes: text between two commands, and redirections of output and complaints."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Write: TypeAlias = Callable[[str], None]


class Text:
    """Text that one command writes and others read, each from where the last one stopped."""

    def __init__(self, text: str = "") -> None:
        self._text = text
        self._at = 0

    def add(self, text: str) -> None:
        self._text += text

    def rest(self) -> str:
        """All that is left."""
        found, self._at = self._text[self._at :], len(self._text)
        return found

    def line(self) -> str | None:
        """The next line without its end; None if there is none."""
        if self._at >= len(self._text):
            return None
        end = self._text.find("\n", self._at)
        end = len(self._text) if end < 0 else end
        found, self._at = self._text[self._at : end], end + 1
        return found


def redirected(write: Write, complain: Write, redirections: tuple[str, ...]) -> tuple[Write, Write]:
    """Where output and complaints go: each redirection is its source and its target, "1>2" or "&>null"."""
    streams = {"1": write, "2": complain, "null": _nowhere}
    for redirection in redirections:
        source, target = redirection.split(">")
        for one in "12" if source == "&" else source:
            streams[one] = streams[target]
    return streams["1"], streams["2"]


def _nowhere(_: str) -> None:
    """Nobody reads it."""
