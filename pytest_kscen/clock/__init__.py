"""Time: a clock for actors, and a runner that drives the event loop.

All other packages take time from this one; the linter bans direct calls of `time` and `asyncio`.
Imports no other package of pytest_kscen.

  clock      the protocols Clock and Runner, timestamps, and Signal
  virtual    simulated time: its clock, its runner, and requests from other threads
  loop       the event loop whose time jumps
  wall       real time: its clock and runner
  tasks      tasks with a fixed order, crashes of actors, reports of a stall
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
