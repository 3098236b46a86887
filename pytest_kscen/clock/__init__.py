"""The one door to time: a clock to ask and to wait by, and a runner that turns it.

Nothing of ours may enter here.
"""

from pytest_kscen.clock.clock import Clock, Runner, Signal, epoch_of, timestamp_of
from pytest_kscen.clock.tasks import ActorCrashedError, StalledError
from pytest_kscen.clock.virtual import VirtualClock, VirtualRunner
from pytest_kscen.clock.wall import WallClock, WallRunner

__all__ = [
    "ActorCrashedError",
    "Clock",
    "Runner",
    "Signal",
    "StalledError",
    "VirtualClock",
    "VirtualRunner",
    "WallClock",
    "WallRunner",
    "epoch_of",
    "timestamp_of",
]
