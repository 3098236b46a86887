"""How long things take on a machine, in seconds of cluster time."""

from __future__ import annotations

SANDBOX = 0.4  # a pod's network and cgroup
PULL = 0.8  # an image that the machine has never had
PULL_PRESENT = 0.1  # one that it has, asked for with imagePullPolicy Always
START = 0.3  # a container
CLEAN_UP = 0.5  # from the end of a pod's last container until the machine has forgotten the pod
SYNC_DELAY = 1.0  # until the kubelet looks again at a container that ended

LEASE_PERIOD = 10.0
LEASE_DURATION = 40
STATUS_PERIOD = (
    30  # leases: a node's status is written at least this often, and sooner when it has changed
)

RESTART_FIRST, RESTART_LONGEST = (
    10.0,
    300.0,
)  # back-off of containers that end, and of images that cannot be pulled
RESTART_FORGIVEN = 600.0  # a container that ran longer than this begins anew
MOUNT_FIRST, MOUNT_LONGEST = 0.5, 122.0  # until a volume that was not there is looked for again
CONFIG_RETRY = 10.0  # until a container whose environment lacks something is tried again
KILL_ORPHAN = 1.0  # grace of containers whose pod is no longer in the API


class RestartBackoff:
    """Of one container, or of one image's pulls."""

    __slots__ = ("_last", "delay")

    def __init__(self) -> None:
        self.delay = 0.0
        self._last = 0.0

    def next(self, now: float) -> float:
        """The delay after this failure: none after the first, then 10 s, and twice as much each
        time.
        """
        if now - self._last > RESTART_FORGIVEN:
            self.delay = 0.0
        delay = self.delay
        self.delay = min(max(self.delay * 2, RESTART_FIRST), RESTART_LONGEST)
        self._last = now + delay
        return delay


def go_duration(seconds: float) -> str:
    """As Go writes it: `10s`, `1m20s`, `800ms`."""
    if seconds < 1:
        return f"{seconds * 1000:g}ms"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    text = f"{rest:g}s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text
