"""Durations on simulated machines in seconds of cluster time, and the back-off of restarts.

The values are those of the real kubelet where it defines them.
"""

from __future__ import annotations

SANDBOX = 0.4  # a pod's network and cgroup
PULL = 0.8  # an image that is not on the machine
PULL_PRESENT = 0.1  # an image on the machine, with imagePullPolicy Always
START = 0.3  # a container
CLEAN_UP = 0.5  # from the end of a pod's last container to the removal of its sandbox
SYNC_DELAY = 1.0  # until the kubelet's next synchronisation of an ended container

LEASE_PERIOD = 10.0
LEASE_DURATION = 40
STATUS_PERIOD = 30  # lease renewals between two writes of an unchanged node status

RESTART_FIRST, RESTART_LONGEST = (
    10.0,
    300.0,
)  # back-off of containers that end, and of images that cannot be pulled
RESTART_FORGIVEN = 600.0  # a container that ran longer restarts without delay
MOUNT_FIRST, MOUNT_LONGEST = 0.5, 122.0  # between attempts to mount a missing volume
CONFIG_RETRY = 10.0  # between attempts to resolve a container's environment
KILL_ORPHAN = 1.0  # grace period of containers whose pod is no longer in the API


class RestartBackoff:
    """Back-off of one container's restarts or one image's pulls; forgotten after
    `RESTART_FORGIVEN` seconds without a failure.
    """

    __slots__ = ("_last", "delay")

    def __init__(self) -> None:
        self.delay = 0.0
        self._last = 0.0

    def next(self, now: float) -> float:
        """Return the delay after this failure: 0 for the first, then 10 s, doubled each time up
        to 5 minutes.
        """
        if now - self._last > RESTART_FORGIVEN:
            self.delay = 0.0
        delay = self.delay
        self.delay = min(max(self.delay * 2, RESTART_FIRST), RESTART_LONGEST)
        self._last = now + delay
        return delay


def go_duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:g}ms"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    text = f"{rest:g}s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text
