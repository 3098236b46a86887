"""Servers by the address and the port on which they listen. One of them serves one client at a time."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Server:
    machine: str
    is_busy: bool = False
    is_gone: bool = False


@dataclass(slots=True)
class Servers:
    """All of a cluster's."""

    _listening: dict[tuple[str, int], Server] = field(default_factory=dict)

    def listen(self, address: str, port: int, machine: str) -> Server | None:
        """None if somebody else does already."""
        if (address, port) in self._listening:
            return None
        server = self._listening[address, port] = Server(machine)
        return server

    def at(self, address: str, port: int) -> Server | None:
        return self._listening.get((address, port))

    def close(self, server: Server) -> None:
        server.is_gone = True
        self._listening = {place: one for place, one in self._listening.items() if one is not server}
