"""One connection between two kernels: a state machine, and the one timer that its state may need.

Packets that vanish are noticed late; until then both ends believe in the connection, and if they
come through again in time, nothing has happened."""

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


# What two kernels feel of the network between them, both directions together. Each listens on a
# port of its own and either may dial: one open direction is enough for a connection.


NEGLIGIBLE_LOSS = 1e-6  # loss below which no connection drops within any test's life
MATHIS_CONSTANT = (
    1.22  # the constant of the Mathis formula, for the throughput of TCP that loses packets
)


class LinkQuality(NamedTuple):
    """Between two machines, for one resource."""

    open: bool
    loss: float
    """The share of questions that get no answer."""
    delay: float
    """Seconds that a question and its answer take longer."""
    load: float
    rate: float = math.inf
    """Bytes per second that pass, the slower way."""


UNIMPAIRED = LinkQuality(open=True, loss=0.0, delay=0.0, load=0.0)
UNREACHABLE = LinkQuality(open=False, loss=1.0, delay=0.0, load=0.0)


def measure_link(network: Network, there: Flow, back: Flow) -> LinkQuality:
    one, other = network.passage(there), network.passage(back)
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
    """How many pings it takes until two in a row are lost, for a draw from 0 to 1."""
    dropped = loss * loss
    return 1 + math.floor(math.log1p(-draw) / math.log1p(-dropped))


def resync_throughput(weather: LinkQuality, figures: DrbdParameters) -> float:
    """Bytes per second that a resync gets through, alone."""
    share = min(weather.rate, max(figures.least_share, 1 - weather.load) * figures.resync_rate)
    if not weather.loss:
        return share
    ceiling = (
        figures.segment
        / (figures.round_trip + weather.delay)
        * MATHIS_CONSTANT
        / math.sqrt(weather.loss)
    )
    return min(share, ceiling)


class ConnectionPhase(IntEnum):
    WAITING = auto()
    """For the other end, or for a way to it."""
    DIALLING = auto()
    """Both are there and hear each other."""
    CONNECTED = auto()
    SILENT = auto()
    """Nothing comes through, and nobody has noticed."""
    STRANGERS = auto()
    """Their data has nothing in common: neither tries again."""


class ConnectionEvent(IntEnum):
    CAME = auto()
    """An end is up, and hears the other."""
    LEFT = auto()
    """An end said goodbye, or has begun anew."""
    DIED = auto()
    """An end lost its power."""
    OPENED = auto()
    """Packets come through."""
    SHUT = auto()
    """Packets vanish."""
    MET = auto()
    """The handshake succeeded."""
    UNRELATED = auto()
    """The handshake found other data."""
    NOTICED = auto()
    """The silence took too long."""
    DROPPED = auto()
    """Two pings in a row were lost."""


TRANSITIONS = {
    (ConnectionPhase.WAITING, ConnectionEvent.CAME): ConnectionPhase.DIALLING,
    (ConnectionPhase.WAITING, ConnectionEvent.OPENED): ConnectionPhase.DIALLING,
    (ConnectionPhase.DIALLING, ConnectionEvent.MET): ConnectionPhase.CONNECTED,
    (ConnectionPhase.DIALLING, ConnectionEvent.UNRELATED): ConnectionPhase.STRANGERS,
    (ConnectionPhase.DIALLING, ConnectionEvent.SHUT): ConnectionPhase.WAITING,
    (ConnectionPhase.DIALLING, ConnectionEvent.LEFT): ConnectionPhase.WAITING,
    (ConnectionPhase.DIALLING, ConnectionEvent.DIED): ConnectionPhase.WAITING,
    (ConnectionPhase.CONNECTED, ConnectionEvent.SHUT): ConnectionPhase.SILENT,
    (ConnectionPhase.CONNECTED, ConnectionEvent.DIED): ConnectionPhase.SILENT,
    (ConnectionPhase.CONNECTED, ConnectionEvent.LEFT): ConnectionPhase.WAITING,
    (ConnectionPhase.CONNECTED, ConnectionEvent.DROPPED): ConnectionPhase.DIALLING,
    (ConnectionPhase.SILENT, ConnectionEvent.OPENED): ConnectionPhase.CONNECTED,
    (ConnectionPhase.SILENT, ConnectionEvent.NOTICED): ConnectionPhase.WAITING,
    (ConnectionPhase.SILENT, ConnectionEvent.LEFT): ConnectionPhase.WAITING,
    (ConnectionPhase.STRANGERS, ConnectionEvent.LEFT): ConnectionPhase.WAITING,
    (ConnectionPhase.STRANGERS, ConnectionEvent.DIED): ConnectionPhase.WAITING,
}

REPORTED_STATES = {
    ConnectionPhase.WAITING: ConnectionState.CONNECTING,
    ConnectionPhase.DIALLING: ConnectionState.CONNECTING,
    ConnectionPhase.CONNECTED: ConnectionState.CONNECTED,
    ConnectionPhase.SILENT: ConnectionState.CONNECTED,
    ConnectionPhase.STRANGERS: ConnectionState.STAND_ALONE,
}

DIALLING, CONNECTED, SILENT = (
    ConnectionPhase.DIALLING,
    ConnectionPhase.CONNECTED,
    ConnectionPhase.SILENT,
)  # an enumeration takes its time to find them


class PeerLink:
    """Between two nodes, for one resource."""

    def __init__(
        self,
        ends: tuple[str, str],
        stream: Stream,
        timers: Timers,
        figures: DrbdParameters,
        due: Callable[[PeerLink, ConnectionEvent], None],
    ) -> None:
        self.ends = ends
        self.phase = ConnectionPhase.WAITING
        self.shown = REPORTED_STATES[self.phase]
        self.connected = False
        """Really: what one end sends, the other gets."""
        self.silent = False
        self.weather = UNREACHABLE
        self.usable = False
        """Both ends are up, want each other, and packets come through."""
        self.flows: tuple[Flow, Flow] | None = None
        """There and back, while both ends are up and want each other."""
        self._stream = stream
        self._timers = timers
        self._figures = figures
        self._due = due
        self._timer: Timer | None = None

    def happen(self, event: ConnectionEvent, replicas: dict[str, DrbdReplica]) -> None:
        """What the table says."""
        phase = TRANSITIONS.get((self.phase, event))
        if phase is None:
            return
        self.phase, self.shown = phase, REPORTED_STATES[phase]
        self.connected, self.silent = phase is CONNECTED, phase is SILENT
        one, other = self.ends
        self._show(one, other, replicas)
        self._show(other, one, replicas)
        figures = self._figures
        if self.phase is DIALLING:
            self._wait(
                self._stream.between(
                    *(figures.redialling if event is ConnectionEvent.OPENED else figures.dialling)
                ),
                ConnectionEvent.MET,
            )
        elif self.phase is SILENT:
            self._wait(self._stream.between(*figures.noticing), ConnectionEvent.NOTICED)
        elif self.phase is CONNECTED:
            self._wait_for_loss()
        else:
            self.end()

    def _show(self, here: str, there: str, replicas: dict[str, DrbdReplica]) -> None:
        """What one end sees of the other by now."""
        replica = replicas.get(here)
        if replica is None:
            return
        if self.connected:
            replica.sees[there] = replicas[there]
        elif self.silent:
            peer = replica.sees[there]
            replica.sees[there] = PeerView(peer.role, peer.disk, peer.quorum)
        else:
            replica.sees.pop(there, None)

    def feel(self, weather: LinkQuality) -> None:
        """The network has changed between the ends."""
        loss, self.weather = self.weather.loss, weather
        if self.connected and weather.open and weather.loss != loss:
            self._wait_for_loss()

    def end(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = None

    def _wait_for_loss(self) -> None:
        self.end()
        if self.weather.loss > NEGLIGIBLE_LOSS:
            pings = pings_until_lost(self.weather.loss, self._stream.between(0, 1))
            self._wait(pings * self._figures.ping, ConnectionEvent.DROPPED)

    def _wait(self, seconds: float, event: ConnectionEvent) -> None:
        self.end()
        self._timer = self._timers.after(seconds, lambda: self._ring(event))

    def _ring(self, event: ConnectionEvent) -> None:
        self._timer = None
        self._due(self, event)
