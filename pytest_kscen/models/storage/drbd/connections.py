"""Connections between two kernels: the quality of their network path, and a state machine each.

The mesh drives them with events; a connection itself sets the one timer that its phase may need.
Lost packets are noticed late: until then both ends still report the connection as established, and
a path that recovers in time has changed nothing. Resource states are not decided here.
"""

from __future__ import annotations

import math
from enum import IntEnum, auto
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.embedded.kubelet.network import NO_IMPAIRMENT
from pytest_kscen.models.storage.drbd.replicas import PeerView
from pytest_kscen.models.storage.drbd.states import ConnectionState

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.chance import Stream
    from pytest_kscen.embedded.kubelet.network import Flow, Network
    from pytest_kscen.models.storage.drbd.replicas import DrbdReplica
    from pytest_kscen.models.storage.drbd.timers import DrbdParameters, Timer, Timers


NEGLIGIBLE_LOSS = 1e-6  # below this share of lost packets no connection drops within a test
MATHIS_CONSTANT = 1.22  # of the Mathis formula for the throughput of TCP with packet loss


class LinkQuality(NamedTuple):
    """Quality of the network between two machines for one resource, both directions together.

    Each kernel listens on its own port and either may dial, so one open direction is enough.
    """

    open: bool
    loss: float
    """Share of pings without an answer, 0 to 1."""
    delay: float
    """Additional round-trip time in seconds."""
    load: float
    rate: float = math.inf
    """Bytes per second of the slower direction."""


UNIMPAIRED = LinkQuality(open=True, loss=0.0, delay=0.0, load=0.0)
UNREACHABLE = LinkQuality(open=False, loss=1.0, delay=0.0, load=0.0)


def measure_link(network: Network, there: Flow, back: Flow) -> LinkQuality:
    """Combine the passages of both directions. A way that loses all packets counts as closed, and
    the worse direction decides load and rate.
    """
    one, other = network.impairment(there), network.impairment(back)
    if one is NO_IMPAIRMENT and other is NO_IMPAIRMENT:
        return UNIMPAIRED
    if one.blocked and other.blocked:
        return UNREACHABLE
    loss = 1 - (1 - one.lost) * (1 - other.lost)
    if loss >= 1:
        return UNREACHABLE
    delay, load, rate = (
        one.delay + other.delay,
        max(one.load, other.load),
        min(one.rate, other.rate) / 8,
    )
    return LinkQuality(open=True, loss=loss, delay=delay, load=load, rate=rate)


def pings_until_lost(loss: float, draw: float) -> int:
    """Return the number of pings until two in a row are lost, for a uniform draw from 0 to 1.
    `loss` is the share of lost pings and must be above zero.
    """
    dropped = loss * loss
    return 1 + math.floor(math.log1p(-draw) / math.log1p(-dropped))


def resync_throughput(quality: LinkQuality, parameters: DrbdParameters) -> float:
    """Return the bytes per second of a resync that has the link for itself: the configured rate,
    reduced by other load, and bounded by the Mathis formula where packets are lost.
    """
    share = min(
        quality.rate, max(parameters.minimum_share, 1 - quality.load) * parameters.resync_rate
    )
    if not quality.loss:
        return share
    ceiling = (
        parameters.segment
        / (parameters.round_trip + quality.delay)
        * MATHIS_CONSTANT
        / math.sqrt(quality.loss)
    )
    return min(share, ceiling)


class ConnectionPhase(IntEnum):
    WAITING = auto()
    """Waiting for the other end, or for an open path to it."""
    HANDSHAKE = auto()
    """Both ends are up and reach each other; the handshake is under way."""
    CONNECTED = auto()
    SILENT = auto()
    """Packets vanish, and neither end has noticed yet."""
    STAND_ALONE = auto()
    """Unrelated data: neither end tries again."""


class ConnectionEvent(IntEnum):
    PEER_UP = auto()
    """An end is up and reaches the other."""
    PEER_DOWN = auto()
    """An end disconnected, or started anew."""
    POWER_LOST = auto()
    """An end lost its power."""
    PATH_OPENED = auto()
    """Packets pass again."""
    PATH_BLOCKED = auto()
    """Packets vanish."""
    HANDSHAKE_DONE = auto()
    """The handshake succeeded."""
    UNRELATED_DATA = auto()
    """The handshake found unrelated data."""
    PING_TIMEOUT = auto()
    """The ping timeout expired."""
    PINGS_LOST = auto()
    """Two pings in a row were lost."""


TRANSITIONS = {
    (ConnectionPhase.WAITING, ConnectionEvent.PEER_UP): ConnectionPhase.HANDSHAKE,
    (ConnectionPhase.WAITING, ConnectionEvent.PATH_OPENED): ConnectionPhase.HANDSHAKE,
    (ConnectionPhase.HANDSHAKE, ConnectionEvent.HANDSHAKE_DONE): ConnectionPhase.CONNECTED,
    (ConnectionPhase.HANDSHAKE, ConnectionEvent.UNRELATED_DATA): ConnectionPhase.STAND_ALONE,
    (ConnectionPhase.HANDSHAKE, ConnectionEvent.PATH_BLOCKED): ConnectionPhase.WAITING,
    (ConnectionPhase.HANDSHAKE, ConnectionEvent.PEER_DOWN): ConnectionPhase.WAITING,
    (ConnectionPhase.HANDSHAKE, ConnectionEvent.POWER_LOST): ConnectionPhase.WAITING,
    (ConnectionPhase.CONNECTED, ConnectionEvent.PATH_BLOCKED): ConnectionPhase.SILENT,
    (ConnectionPhase.CONNECTED, ConnectionEvent.POWER_LOST): ConnectionPhase.SILENT,
    (ConnectionPhase.CONNECTED, ConnectionEvent.PEER_DOWN): ConnectionPhase.WAITING,
    (ConnectionPhase.CONNECTED, ConnectionEvent.PINGS_LOST): ConnectionPhase.HANDSHAKE,
    (ConnectionPhase.SILENT, ConnectionEvent.PATH_OPENED): ConnectionPhase.CONNECTED,
    (ConnectionPhase.SILENT, ConnectionEvent.PING_TIMEOUT): ConnectionPhase.WAITING,
    (ConnectionPhase.SILENT, ConnectionEvent.PEER_DOWN): ConnectionPhase.WAITING,
    (ConnectionPhase.STAND_ALONE, ConnectionEvent.PEER_DOWN): ConnectionPhase.WAITING,
    (ConnectionPhase.STAND_ALONE, ConnectionEvent.POWER_LOST): ConnectionPhase.WAITING,
}

REPORTED_STATES = {
    ConnectionPhase.WAITING: ConnectionState.CONNECTING,
    ConnectionPhase.HANDSHAKE: ConnectionState.CONNECTING,
    ConnectionPhase.CONNECTED: ConnectionState.CONNECTED,
    ConnectionPhase.SILENT: ConnectionState.CONNECTED,
    ConnectionPhase.STAND_ALONE: ConnectionState.STAND_ALONE,
}

HANDSHAKE, CONNECTED, SILENT = (
    ConnectionPhase.HANDSHAKE,
    ConnectionPhase.CONNECTED,
    ConnectionPhase.SILENT,
)  # looking up enumeration members is slow


class PeerLink:
    """Connection of one resource between two nodes.

    Owned by the resource's mesh, which passes it every event; `due` is called when its timer
    expires.
    """

    def __init__(
        self,
        ends: tuple[str, str],
        stream: Stream,
        timers: Timers,
        parameters: DrbdParameters,
        on_timeout: Callable[[PeerLink, ConnectionEvent], None],
    ) -> None:
        self.ends = ends
        self.phase = ConnectionPhase.WAITING
        self.state = REPORTED_STATES[self.phase]
        self.connected = False
        """True while packets really pass: what one end sends, the other receives."""
        self.silent = False
        self.quality = UNREACHABLE
        self.usable = False
        """True while both ends are up, configured for each other, and the path is open."""
        self.flows: tuple[Flow, Flow] | None = None
        """Flows in both directions, while both ends are up and configured for each other."""
        self._stream = stream
        self._timers = timers
        self._figures = parameters
        self._on_timeout = on_timeout
        self._timer: Timer | None = None

    def handle(self, event: ConnectionEvent, replicas: dict[str, DrbdReplica]) -> None:
        """Apply an event by the table of transitions. Update what both replicas see of each other,
        and set the timer that the new phase needs; events without a transition are ignored.
        """
        phase = TRANSITIONS.get((self.phase, event))
        if phase is None:
            return
        self.phase, self.state = phase, REPORTED_STATES[phase]
        self.connected, self.silent = phase is CONNECTED, phase is SILENT
        one, other = self.ends
        self._update_view(one, other, replicas)
        self._update_view(other, one, replicas)
        parameters = self._figures
        if self.phase is HANDSHAKE:
            self._start_timer(
                self._stream.between(
                    *(
                        parameters.reconnect_after_block
                        if event is ConnectionEvent.PATH_OPENED
                        else parameters.connect_time
                    )
                ),
                ConnectionEvent.HANDSHAKE_DONE,
            )
        elif self.phase is SILENT:
            self._start_timer(
                self._stream.between(*parameters.silence_timeout), ConnectionEvent.PING_TIMEOUT
            )
        elif self.phase is CONNECTED:
            self._schedule_ping_loss()
        else:
            self.cancel_timer()

    def _update_view(self, here: str, there: str, replicas: dict[str, DrbdReplica]) -> None:
        replica = replicas.get(here)
        if replica is None:
            return
        if self.connected:
            replica.visible_peers[there] = replicas[there]
        elif self.silent:
            peer = replica.visible_peers[there]
            replica.visible_peers[there] = PeerView(peer.role, peer.disk, peer.quorum)
        else:
            replica.visible_peers.pop(there, None)

    def set_quality(self, quality: LinkQuality) -> None:
        """Note a new quality of the path. A changed loss draws anew when two pings in a row get
        lost.
        """
        loss, self.quality = self.quality.loss, quality
        if self.connected and quality.open and quality.loss != loss:
            self._schedule_ping_loss()

    def cancel_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = None

    def _schedule_ping_loss(self) -> None:
        self.cancel_timer()
        if self.quality.loss > NEGLIGIBLE_LOSS:
            pings = pings_until_lost(self.quality.loss, self._stream.between(0, 1))
            self._start_timer(pings * self._figures.ping, ConnectionEvent.PINGS_LOST)

    def _start_timer(self, seconds: float, event: ConnectionEvent) -> None:
        self.cancel_timer()

        def expire() -> None:
            self._timer = None
            self._on_timeout(self, event)

        self._timer = self._timers.after(seconds, expire)
