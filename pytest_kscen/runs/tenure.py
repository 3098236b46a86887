"""A run's right to shake the machines of a parent that others may reach: it holds a Lease beside them while it lives.

Two runs would clear each other's chaos away, and each would take the other's for an effect of its own. A parent that is ours
is its run's alone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kscen.clock import Signal
from pytest_kscen.kube.leases import LASTS, Lease, signature
from pytest_kscen.kube.retrying import RetryingApi
from pytest_kscen.objects.errors import Forbidden
from pytest_kscen.runs.preflight import PreflightRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from pytest_kscen.kube.actor import Stage

    Begin = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]

NAME = "chaos.kscen.io"
TAKEN = (
    "the virtual machines in the namespace {where} are shaken by another run: {holder} holds the Lease {lease} of the parent "
    "cluster: wait for its end, or end it; if it was killed, try again when {lasts:.0f} s are over"
)
FORBIDDEN = (
    "whether another run shakes the virtual machines in the namespace {where} cannot be told: {error}. The user of "
    "--parent-kubeconfig needs get, create and update of leases.coordination.k8s.io there"
)


class Tenure:
    """One run's, from when it is claimed until it is given back."""

    def __init__(self, stage: Stage, begin: Begin) -> None:
        """`begin` has a coroutine live beside the run, which hears if that crashes: when the Lease is lost."""
        self._stage = stage
        self._begin = begin
        self._over = Signal()
        self._kept: asyncio.Task[None] | None = None

    async def claim(self) -> None:
        """It is ours, or a PreflightRefused says whose it is."""
        parent, clock = self._stage.parent, self._stage.clock
        if parent is None or parent.owned:
            return
        api = RetryingApi(parent.api_for("chaos"), clock, self._stage.chance.stream("lease of machines"))
        lease = Lease(api, clock, NAME, parent.namespace, signature(f"run {self._stage.run_id}"))
        try:
            holder = await lease.claim()
        except Forbidden as error:
            raise PreflightRefused(FORBIDDEN.format(where=parent.namespace, error=error.message)) from None
        if holder:
            raise PreflightRefused(TAKEN.format(where=parent.namespace, holder=holder, lease=lease, lasts=LASTS))
        self._kept = self._begin(lease.hold(self._over.wait()), f"lease {lease}")

    async def give_back(self) -> None:
        self._over.give()
        if self._kept:
            await asyncio.wait([self._kept])
