"""Chaos lease: the right of one run to cause faults on clusters that others may reach.

`RunLifecycle` claims it before the first fault and releases it last. Two runs at once would remove
each other's chaos objects and take each other's faults for effects of their own. The Lease lies in
the parent beside the virtual machines, and in the tested cluster where the chaos Jobs are. A
cluster that was made for the run needs none.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kscen.chaos.clients import NAMESPACE
from pytest_kscen.clock import Signal
from pytest_kscen.kube.leases import LEASE_DURATION, Lease, holder_name
from pytest_kscen.kube.retrying import RetryingApi
from pytest_kscen.objects.errors import Forbidden, NotFound
from pytest_kscen.run.preflight import PreflightRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from pytest_kscen.kube.actor import RunContext
    from pytest_kscen.kube.api import Api

    StartTask = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]

NAME = "chaos.kscen.io"
TAKEN = (
    "another run causes faults on {where}, or needs it without any: {holder} holds the Lease "
    "{lease} there. Wait for its end, or stop it; "
    "if it was killed, try again after {lasts:.0f} s"
)
FORBIDDEN = (
    "cannot check whether another run causes faults on {where}: {error}. Grant this user get, "
    "create and update of leases.coordination.k8s.io in the namespace {namespace} there"
)
NO_NAMESPACE = "{where} has no namespace {namespace}: check --vm-namespace"


class ChaosLease:
    """Leases of one run in the tested cluster and in its parent."""

    def __init__(self, context: RunContext, start_task: StartTask) -> None:
        """Claim nothing yet. `start_task` starts a task whose crash ends the run (a lost Lease)."""
        self._context = context
        self._start_task = start_task
        self._released = Signal()
        self._holding: list[asyncio.Task[None]] = []

    async def claim(self, stop: Signal) -> None:
        """Claim the Leases, unless the run has them or `stop` comes first.

        A holder that was killed is waited for. Raises a PreflightRefused that names the holder that
        lives, or the right that is missing.
        """
        if self._holding:
            return
        if not self._context.owned:
            await self._claim(self._context.api_for(NAME), NAMESPACE, "the tested cluster", stop)
        parent = self._context.parent
        if parent and not parent.owned:
            await self._claim(parent.api_for(NAME), parent.namespace, "the parent cluster", stop)

    async def _claim(self, api: Api, namespace: str, where: str, stop: Signal) -> None:
        clock, identity = self._context.clock, holder_name(f"run {self._context.run_id}")
        retrying = RetryingApi(api, clock, self._context.chance.stream(f"lease of {where}"))
        lease = Lease(retrying, clock, NAME, namespace, identity)
        try:
            async with self._context.actor(NAME).doing("claim the Lease", where=where) as claim:
                if holder := await lease.claim(stop):
                    claim.result = "stopped"
                if holder and not stop.given:
                    raise PreflightRefused(
                        TAKEN.format(where=where, holder=holder, lease=lease, lasts=LEASE_DURATION)
                    )
        except Forbidden as error:
            raise PreflightRefused(
                FORBIDDEN.format(where=where, namespace=namespace, error=error.message)
            ) from None
        except NotFound:
            raise PreflightRefused(NO_NAMESPACE.format(where=where, namespace=namespace)) from None
        if not holder:
            self._holding.append(
                self._start_task(lease.hold(self._released.wait()), f"lease {lease} of {where}")
            )

    async def release(self) -> None:
        """Release what is held, and wait until it is; a run that holds nothing returns at once."""
        self._released.give()
        if self._holding:
            await asyncio.wait(self._holding)
