"""An iperf3 client's life: it connects, or says why not, and pushes what the link takes until its time is over."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.simulation.network.iperf3 import report
from pytest_kscen.simulation.network.traffic import LINK, PAYLOAD, Load

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytest_kscen.simulation.network.iperf3.options import Options
    from pytest_kscen.simulation.network.iperf3.servers import Server, Servers
    from pytest_kscen.simulation.network.network import Flow, Network
    from pytest_kscen.simulation.network.traffic import Traffic

SHARE = 0.9  # of a link's capacity, if nothing is in the way
ROUND_TRIP = 0.0005  # seconds
WINDOW = 6e6  # bytes that are on their way before the first is acknowledged
SYN_PATIENCE = 127.0  # seconds until a connection that nobody answers is given up
ARP_PATIENCE = 3.0  # seconds until an address is found to be nobody's
CLIENT_PORT = 40000


class Ended(NamedTuple):
    """Why, and with what exit code."""

    complaint: str = ""
    code: int = 0


@dataclass(slots=True)
class Client:
    """One call."""

    machine: str
    address: str
    network: Network
    traffic: Traffic
    servers: Servers
    write: Callable[[str], None]
    sleep: Callable[[float], Awaitable[None]]

    async def run(self, options: Options, target: str) -> Ended:
        """`target` is the machine with the address that is called, or nothing."""
        flow = self.network.flow((self.machine, self.address), (target, options.host), port=options.port)
        if not target:
            await self.sleep(ARP_PATIENCE)
            return _failed("unable to connect to server: No route to host")
        if self._blocked(flow):
            await self.sleep(SYN_PATIENCE)
            return _failed("unable to connect to server: Connection timed out")
        server = self.servers.at(options.host, options.port)
        if server is None:
            return _failed("unable to connect to server: Connection refused")
        if server.is_busy:
            return _failed("the server is busy running a test. try again later")
        return await self._push(options, flow, server)

    async def _push(self, options: Options, flow: Flow, server: Server) -> Ended:
        self.write(report.greeting(self.address, options.host, options.port, CLIENT_PORT))
        server.is_busy = True
        load = Load(flow, self._share(flow))
        self.traffic.begin(load)
        try:
            return await self._intervals(options, load, server)
        finally:
            self.traffic.end(load)
            server.is_busy = False

    async def _intervals(self, options: Options, load: Load, server: Server) -> Ended:
        done, total, resent = 0.0, 0.0, 0
        while done < options.seconds:
            step = min(options.interval or options.seconds, options.seconds - done)
            await self.sleep(step)
            if server.is_gone:
                return _failed("control socket has closed unexpectedly")
            pushed = 0.0 if self._blocked(load.flow) else load.share * LINK / 8 * step
            lost = int(pushed / PAYLOAD * self._loss(load.flow))
            self.write(report.interval(done, done + step, pushed, lost))
            done, total, resent = done + step, total + pushed, resent + lost
            self.traffic.change(load, self._share(load.flow))
        self.write(report.summary(done, total, resent))
        return Ended()

    def _share(self, flow: Flow) -> float:
        """Of the link's capacity: losses make TCP slow down by the square root of their share, delays by themselves."""
        passage = self.network.passage(flow, apart_from=self.traffic.passage)
        if passage.blocked:
            return 0.0
        round_trip = ROUND_TRIP + passage.delay
        most = min(SHARE, passage.rate / LINK, WINDOW * 8 / round_trip / LINK)
        return min(most, math.sqrt(1.5 / passage.lost) * PAYLOAD * 8 / round_trip / LINK) if passage.lost else most

    def _loss(self, flow: Flow) -> float:
        return self.network.passage(flow).lost

    def _blocked(self, flow: Flow) -> bool:
        return self.network.passage(flow).blocked


def _failed(why: str) -> Ended:
    return Ended(f"iperf3: error - {why}\n", 1)
