"""Simulated iperf3: a client loads the link to a server and prints what the real one prints.

Called by the command in `hosts`. Throughput follows from the impairments of the flow at each
interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.embedded.kubelet.network.flows import LINK_CAPACITY, PAYLOAD, TrafficLoad

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytest_kscen.embedded.kubelet.network.flows import Flow, Network, Traffic


KILO, UNITS = 1024.0, ("", "K", "M", "G", "T")
RATE_KILO = 1000.0
HEAD = "[ ID] Interval           Transfer     Bitrate         Retr{}\n"
LINE = "- - - - - - - - - - - - - - - - - - - - - - - - -\n"
WINDOW_TEXT = " 1.12 MBytes"
TINY, SMALL = 9.995, 99.95  # limits below which iperf3 prints two decimals or one


def format_greeting(local: str, remote: str, port: int, client_port: int) -> str:
    head = HEAD.format("  Cwnd")
    return (
        f"Connecting to host {remote}, port {port}\n[  5] local {local} port {client_port} "
        f"connected to {remote} port {port}\n{head}"
    )


def format_interval(start: float, end: float, pushed: float, resent: int) -> str:
    return f"{_format_span(start, end, pushed)}{resent:>5}  {WINDOW_TEXT}       \n"


def format_summary(seconds: float, pushed: float, resent: int) -> str:
    span = _format_span(0, seconds, pushed)
    return (
        f"{LINE}{HEAD.format('')}{span}{resent:>5}             sender\n{span}                 "
        " receiver\n\niperf Done.\n"
    )


def _format_span(start: float, end: float, pushed: float) -> str:
    rate = pushed * 8 / (end - start) if end > start else 0.0
    return (
        f"[  5] {start:>6.2f}-{end:<6.2f} sec  {_format_amount(pushed, KILO)}Bytes  "
        f"{_format_amount(rate, RATE_KILO)}bits/sec"
    )


def _format_amount(value: float, kilo: float) -> str:
    power = 0
    while value >= kilo and power < len(UNITS) - 1:
        value, power = value / kilo, power + 1
    digits = 2 if value < TINY else 1 if value < SMALL else 0
    return f"{value:>4.{digits}f} {UNITS[power]}"


USABLE_SHARE = 0.9  # of a link's capacity without impairments
ROUND_TRIP = 0.0005  # seconds
WINDOW_BYTES = 6e6  # unacknowledged bytes in flight
CONNECT_TIMEOUT = 127.0  # seconds, as of Linux' SYN retries
ARP_TIMEOUT = 3.0  # seconds until an unused address is unreachable
CLIENT_PORT = 40000


class Iperf3Result(NamedTuple):
    stderr: str = ""
    code: int = 0


@dataclass(slots=True)
class Iperf3Client:
    """Call of `iperf3 -c` from one container, with access to the network and to its log."""

    machine: str
    address: str
    network: Network
    traffic: Traffic
    servers: Iperf3Servers
    write: Callable[[str], None]
    sleep: Callable[[float], Awaitable[None]]

    async def run(self, options: Iperf3Options, target: str) -> Iperf3Result:
        """Connect and send until the time is over. `target` is the machine behind the called
        address, or "".

        Timeouts take the time they take in Linux.
        """
        flow = self.network.flow(
            (self.machine, self.address), (target, options.host), port=options.port
        )
        if not target:
            await self.sleep(ARP_TIMEOUT)
            return _failure("unable to connect to server: No route to host")
        if self._blocked(flow):
            await self.sleep(CONNECT_TIMEOUT)
            return _failure("unable to connect to server: Connection timed out")
        server = self.servers.at(options.host, options.port)
        if server is None:
            return _failure("unable to connect to server: Connection refused")
        if server.is_busy:
            return _failure("the server is busy running a test. try again later")
        self.write(format_greeting(self.address, options.host, options.port, CLIENT_PORT))
        server.is_busy = True
        load = TrafficLoad(flow, self._share(flow))
        self.traffic.begin(load)
        try:
            done, total, resent = 0.0, 0.0, 0
            while done < options.seconds:
                step = min(options.interval or options.seconds, options.seconds - done)
                await self.sleep(step)
                if server.is_closed:
                    return _failure("control socket has closed unexpectedly")
                pushed = 0.0 if self._blocked(load.flow) else load.share * LINK_CAPACITY / 8 * step
                lost = int(pushed / PAYLOAD * self.network.impairment(load.flow).lost)
                self.write(format_interval(done, done + step, pushed, lost))
                done, total, resent = done + step, total + pushed, resent + lost
                self.traffic.change(load, self._share(load.flow))
            self.write(format_summary(done, total, resent))
            return Iperf3Result()
        finally:
            self.traffic.end(load)
            server.is_busy = False

    def _share(self, flow: Flow) -> float:
        """Return the share of the link's capacity that TCP reaches on this flow.

        Losses reduce it by the square root of their share (Mathis), delays by the window.
        """
        impairment = self.network.impairment(flow, excluding=self.traffic.impairment)
        if impairment.blocked:
            return 0.0
        round_trip = ROUND_TRIP + impairment.delay
        most = min(
            USABLE_SHARE,
            impairment.rate / LINK_CAPACITY,
            WINDOW_BYTES * 8 / round_trip / LINK_CAPACITY,
        )
        return (
            min(most, math.sqrt(1.5 / impairment.lost) * PAYLOAD * 8 / round_trip / LINK_CAPACITY)
            if impairment.lost
            else most
        )

    def _blocked(self, flow: Flow) -> bool:
        return self.network.impairment(flow).blocked


def _failure(why: str) -> Iperf3Result:
    return Iperf3Result(f"iperf3: error - {why}\n", 1)


@dataclass(slots=True, eq=False)
class Iperf3Server:
    machine: str
    is_busy: bool = False
    is_closed: bool = False


@dataclass(slots=True)
class Iperf3Servers:
    """Listening servers of a cluster by address and port. Each serves one client at a time."""

    _listening: dict[tuple[str, int], Iperf3Server] = field(default_factory=dict)

    def listen(self, address: str, port: int, machine: str) -> Iperf3Server | None:
        if (address, port) in self._listening:
            return None
        server = self._listening[address, port] = Iperf3Server(machine)
        return server

    def at(self, address: str, port: int) -> Iperf3Server | None:
        return self._listening.get((address, port))

    def close(self, server: Iperf3Server) -> None:
        server.is_closed = True
        self._listening = {
            place: one for place, one in self._listening.items() if one is not server
        }


PORT = 5201
LETTERS = {
    "--server": "-s", "--daemon": "-D", "--client": "-c", "--time": "-t", "--interval": "-i",
    "--port": "-p", "--one-off": "-1",
}  # fmt: skip
IGNORED = ("--forceflush", "-4", "--version4")


@dataclass(slots=True)
class Iperf3Options:
    serves: bool = False
    in_background: bool = False
    host: str = ""
    seconds: float = 10.0
    interval: float = 1.0
    port: int = PORT


def parse_options(arguments: list[str]) -> Iperf3Options:
    found, left = Iperf3Options(), list(arguments)
    while left:
        word = left.pop(0)
        word = LETTERS.get(word, word)
        if word == "-s":
            found.serves = True
        elif word == "-D":
            found.in_background = True
        elif word in {"-c", "-t", "-i", "-p"} and left:
            value = left.pop(0)
            if word == "-c":
                found.host = value
                continue
            number = float(value)
            if word == "-t":
                found.seconds = number
            elif word == "-i":
                found.interval = number
            else:
                found.port = int(value)
        elif word not in IGNORED:
            raise ValueError(f"{word} is not supported (supported: -s, -D, -c, -t, -i, -p)")
    if found.serves == bool(found.host):
        raise ValueError("parameter error - must either be a client (-c) or server (-s)")
    return found
