"""The figures that the model lives by, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

MEBI = 2**20


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds, bytes, and bytes per second."""

    ping: float = 10.0
    """DRBD's ping-int: how often an idle connection is tried."""
    noticing: tuple[float, float] = (6.0, 16.0)
    """Until packets that vanish are noticed: the time-out of 6 s, and up to a ping-int before it begins."""
    redialling: tuple[float, float] = (40.0, 60.0)
    """From the end of a silent block to the connection: both sides' retries have grown rare, as TCP's do."""
    dialling: tuple[float, float] = (1.0, 3.0)
    """Until two that hear each other are connected, when one has just come up or a ping was lost."""
    write_rate: float = MEBI
    """What a volume in use is written with: a quiet database."""
    resync_rate: float = 100.0 * MEBI
    """DRBD's c-max-rate as it is by default."""
    activity: float = 64.0 * MEBI
    """What a Primary's activity log covers when it crashes: sixteen extents of 4 MiB."""
    round_trip: float = 0.0002
    """Between two machines of a rack."""
    segment: int = 1460
    """Bytes of data in a TCP packet on Ethernet."""
    least_share: float = 0.05
    """What a resync gets of a link that others use in full."""


FIGURES = Figures()
