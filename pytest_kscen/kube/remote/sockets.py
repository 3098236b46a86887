"""The sockets of one connection, or of one server: gone when it is closed, whatever their peers do.

A connection under TLS says goodbye and waits for the peer's; the loop may end before that comes, so the wait is cut short.
"""

from __future__ import annotations

import contextlib
import socket  # noqa: TID251  # this is the door
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PROBES = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 3}  # a peer that is gone is noticed within a minute
TURNS = 1000  # of the loop; a handful does


class Sockets:
    """Makes them, and ends them."""

    def __init__(self) -> None:
        self._made: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def make(self, address: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, seconds in PROBES.items():
            if hasattr(socket, name):
                made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)
        self._made.add(made)
        return made

    def listen(self, host: str) -> socket.socket:
        """At a free port of this host; whoever is let in there is one of them."""
        listening = _Listening(socket.AF_INET, socket.SOCK_STREAM)
        listening.accepted = self._made
        listening.bind((host, 0))
        return listening

    async def end(self, turn: Callable[[], Awaitable[None]]) -> None:
        """After this none is open. `turn` lets the loop turn once."""
        for one in self._open():
            with contextlib.suppress(OSError):  # it was never connected, or its peer was quicker
                one.shutdown(socket.SHUT_RDWR)
        for _ in range(TURNS):
            if not self._open():
                return
            await turn()

    def _open(self) -> list[socket.socket]:
        return [one for one in self._made if one.fileno() != -1]


class _Listening(socket.socket):
    """Remembers whom it has let in: a server under TLS knows of nobody before they have shaken hands."""

    accepted: weakref.WeakSet[socket.socket]

    def accept(self) -> tuple[socket.socket, Any]:
        visitor, address = super().accept()
        self.accepted.add(visitor)
        return visitor, address
