"""What two kernels feel of the network between them, both directions together.

Each listens on a port of its own and either may dial: one open direction is enough for a connection.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.simulation.network import OPEN

if TYPE_CHECKING:
    from pytest_kscen.simulation.network import Flow, Network
    from pytest_kscen.simulation.storage.drbd.figures import Figures

NOTICEABLE = 1e-6  # loss below which no connection drops within any test's life
MATHIS = 1.22  # the constant of the Mathis formula, for the throughput of TCP that loses packets


class Weather(NamedTuple):
    """Between two machines, for one resource."""

    open: bool
    loss: float
    """The share of questions that get no answer."""
    delay: float
    """Seconds that a question and its answer take longer."""
    load: float
    rate: float = math.inf
    """Bytes per second that pass, the slower way."""


CLEAR = Weather(open=True, loss=0.0, delay=0.0, load=0.0)
DARK = Weather(open=False, loss=1.0, delay=0.0, load=0.0)


def between(network: Network, there: Flow, back: Flow) -> Weather:
    one, other = network.passage(there), network.passage(back)
    if one is OPEN and other is OPEN:
        return CLEAR
    if one.blocked and other.blocked:
        return DARK
    loss = 1 - (1 - one.lost) * (1 - other.lost)
    if loss >= 1:
        return DARK
    delay, load, rate = one.delay + other.delay, max(one.load, other.load), min(one.rate, other.rate) / 8
    return Weather(open=True, loss=loss, delay=delay, load=load, rate=rate)


def pings_until_lost(loss: float, draw: float) -> int:
    """How many pings it takes until two in a row are lost, for a draw from 0 to 1."""
    dropped = loss * loss
    return 1 + math.floor(math.log1p(-draw) / math.log1p(-dropped))


def throughput(weather: Weather, figures: Figures) -> float:
    """Bytes per second that a resync gets through, alone."""
    share = min(weather.rate, max(figures.least_share, 1 - weather.load) * figures.resync_rate)
    if not weather.loss:
        return share
    ceiling = figures.segment / (figures.round_trip + weather.delay) * MATHIS / math.sqrt(weather.loss)
    return min(share, ceiling)
