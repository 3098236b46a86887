"""One engine at a time drives the workflows of a cluster that others may reach: it holds a Lease while it does.

Two would take each other's removals for sabotage, and tell everything twice. An embedded cluster's run is alone on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.clock import Signal
from pytest_kscen.kube.leases import LASTS, Lease, signature
from pytest_kscen.kube.retrying import RetryingApi
from pytest_kscen.runs.preflight import PreflightRefused
from pytest_kscen.workflow.engine import ENGINE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Never

    from pytest_kscen.clock import Clock
    from pytest_kscen.clusters.cluster import Cluster

NAMESPACE = "kube-system"
NAME = "workflow-engine.kscen.io"
REFUSED = (
    "the workflows of this cluster are driven by {holder}, which holds the Lease {lease}: end that first; "
    "if it was killed, try again when {lasts:.0f} s are over"
)


class Leading:
    """One engine's right to drive workflows, from when it is taken until the engine's life is ended."""

    def __init__(self, cluster: Cluster, who: str) -> None:
        stream = cluster.chance.stream("lease of workflows")
        self._clock: Clock = cluster.runner.clock
        self._begun = Signal()
        self._drive: Callable[[], Coroutine[Any, Any, Never]] | None = None
        api = RetryingApi(cluster.api(ENGINE), self._clock, stream)
        self.lease = Lease(api, self._clock, NAME, NAMESPACE, signature(f"{who} {stream.suffix(5)}"))

    async def claim(self) -> None:
        """It is ours, or a PreflightRefused says who keeps it."""
        if holder := await self.lease.claim(Signal()):
            raise PreflightRefused(REFUSED.format(holder=holder, lease=self.lease, lasts=LASTS))

    async def wait(self, word: Signal, tell: Callable[[str], None]) -> bool:
        """Until it is ours, however long that takes; False if the word comes first. Each of its holders is told."""
        told = ""
        while not word.given:
            if not (holder := await self.lease.take()):
                return True
            if holder != told:
                told = holder
                tell(holder)
            await word.within(self.lease.pause)
        return False

    async def live(self) -> None:
        """Keep it, and drive as soon as that has begun, until this is cancelled; raises LeaseLost when somebody else may drive."""
        await self.lease.hold(self._work())

    async def begin(self, drive: Callable[[], Coroutine[Any, Any, Never]]) -> None:
        self._drive = drive
        self._begun.give()

    async def _work(self) -> None:
        await self._begun.wait()
        if self._drive:
            await self._drive()
