"""A run's right to chaos on clusters that others may reach: it holds a Lease in each while it lives.

Two runs would clear each other's chaos away, and each would take the other's for an effect of its own. The Lease is beside the
virtual machines of a parent, and where the chaos Jobs of a tested cluster are. A cluster of ours is its run's alone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kscen.chaos.jobs import NAMESPACE
from pytest_kscen.clock import Signal
from pytest_kscen.kube.leases import LASTS, Lease, signature
from pytest_kscen.kube.retrying import RetryingApi
from pytest_kscen.objects.errors import Forbidden, NotFound
from pytest_kscen.runs.preflight import PreflightRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from pytest_kscen.kube.actor import Stage
    from pytest_kscen.kube.api import Api

    Begin = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]

NAME = "chaos.kscen.io"
TAKEN = (
    "another run does chaos on {where}, or needs it calm: {holder} holds the Lease {lease} there: wait for its end, or end it; "
    "if it was killed, try again when {lasts:.0f} s are over"
)
FORBIDDEN = (
    "whether another run does chaos on {where} cannot be told: {error}. Our user needs get, create and update of "
    "leases.coordination.k8s.io in the namespace {namespace} there"
)
NOWHERE = "{where} has no namespace {namespace}: see --vm-namespace"


class Tenure:
    """One run's, from when it is claimed until it is given back."""

    def __init__(self, stage: Stage, begin: Begin) -> None:
        """`begin` has a coroutine live beside the run, which hears if that crashes: when a Lease is lost."""
        self._stage = stage
        self._begin = begin
        self._over = Signal()
        self._kept: list[asyncio.Task[None]] = []

    async def claim(self, word: Signal) -> None:
        """It is ours, or was, or a PreflightRefused says whose it is; or the word comes first."""
        if self._kept:
            return
        if not self._stage.owned:
            await self._claim(self._stage.api_for(NAME), NAMESPACE, "the tested cluster", word)
        parent = self._stage.parent
        if parent and not parent.owned:
            await self._claim(parent.api_for(NAME), parent.namespace, "the parent cluster", word)

    async def _claim(self, api: Api, namespace: str, where: str, word: Signal) -> None:
        clock, who = self._stage.clock, signature(f"run {self._stage.run_id}")
        patient = RetryingApi(api, clock, self._stage.chance.stream(f"lease of {where}"))
        lease = Lease(patient, clock, NAME, namespace, who)
        try:
            async with self._stage.actor(NAME).doing("claim the Lease", where=where) as claim:
                if holder := await lease.claim(word):  # which may wait for one who was killed
                    claim.result = "stopped"
                if holder and not word.given:
                    raise PreflightRefused(TAKEN.format(where=where, holder=holder, lease=lease, lasts=LASTS))
        except Forbidden as error:
            raise PreflightRefused(FORBIDDEN.format(where=where, namespace=namespace, error=error.message)) from None
        except NotFound:
            raise PreflightRefused(NOWHERE.format(where=where, namespace=namespace)) from None
        if not holder:
            self._kept.append(self._begin(lease.hold(self._over.wait()), f"lease {lease} of {where}"))

    async def give_back(self) -> None:
        self._over.give()
        if self._kept:
            await asyncio.wait(self._kept)
