"""Leases for leader election: the holder acts, other candidates wait until the Lease is released
or has expired.

Expiry of another holder's Lease is measured by this process' clock from its last observed change,
since clocks of two machines need not agree. While the API does not answer, no other candidate can
take the Lease, so its holder continues. The Lease is lost when it was taken or removed by another
client, or when renewal is refused. A holder that alone was disconnected from the API detects the
loss with the next answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
from typing import TYPE_CHECKING, Any

from pytest_kscen.clock import timestamp_of
from pytest_kscen.kube.retrying import is_transient
from pytest_kscen.objects.errors import AlreadyExists, ApiError, Conflict, NotFound
from pytest_kscen.objects.resources import LEASES

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Never

    from pytest_kscen.clock import Clock, Signal
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj

LEASE_DURATION = 15.0  # seconds from a renewal until the Lease expires
RENEW_INTERVAL = 2.0
REQUEST_TIMEOUT = 5.0  # seconds that renewing or releasing may take


class LeaseLost(Exception):
    """Raised when another client has taken or removed the Lease; the message names it."""


class Lease:
    """Lease, for one candidate for it."""

    def __init__(self, api: Api, clock: Clock, name: str, namespace: str, holder: str) -> None:
        """Prepare the candidate. `holder` must be unique among candidates."""
        self._api = api
        self._clock = clock
        self._name = name
        self._namespace = namespace
        self.holder = holder
        self._version = ""
        self._expires_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_renewed = False
        """True once another holder has been observed to renew the Lease."""

    def __str__(self) -> str:
        return f"{self._namespace}/{self._name}"

    async def take(self) -> str:
        """Try once. Return the present holder, or an empty text if this candidate holds the Lease
        now.
        """
        while True:
            found = await self._read()
            if found and (holder := holder_of(found)) not in {"", self.holder}:
                version = found["metadata"]["resourceVersion"]
                if version != self._version:
                    self.is_renewed = bool(self._version)
                    self._version = version
                    self._loop = asyncio.get_running_loop()
                    lasts = found["spec"].get("leaseDurationSeconds", LEASE_DURATION)
                    self._expires_at = self._loop.time() + lasts
                if self._seconds_left > 0:
                    return holder
            quicker = (
                (Conflict, NotFound) if found else (Conflict, AlreadyExists)
            )  # a NotFound of a creation is raised: the namespace does not exist
            with contextlib.suppress(*quicker):  # another candidate was quicker
                await self._write(found)
                return ""

    async def claim(self, stop: Signal) -> str:
        """Try until the Lease is taken, perhaps after a killed holder's Lease has expired. Return
        the other holder as soon as it has renewed the Lease, or at the signal; else an empty text.
        """
        while (holder := await self.take()) and not self.is_renewed:
            if await stop.within(self.pause):
                break
        return holder

    @property
    def pause(self) -> float:
        """Return the seconds until another attempt can succeed."""
        return min(RENEW_INTERVAL, max(self._seconds_left, 0.0))

    @property
    def _seconds_left(self) -> float:
        """Return the seconds until the present holder's Lease expires, as last observed."""
        return self._expires_at - self._loop.time() if self._loop else 0.0

    async def hold(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` while the Lease is held, then release it. LeaseLost is raised after the work
        was cancelled.
        """
        loop = asyncio.get_running_loop()
        tasks = [
            loop.create_task(work, name=f"work of {self.holder}"),
            loop.create_task(self._renew_forever(), name=f"lease {self}"),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await self._release()
        for task in tasks:
            if task in done:
                task.result()

    async def _renew_forever(self) -> Never:
        while True:
            await self._clock.sleep(RENEW_INTERVAL, background=True)
            try:
                async with asyncio.timeout(REQUEST_TIMEOUT):
                    await self._renew()
            except (ApiError, OSError) as error:
                if not is_transient(error):
                    raise LeaseLost(f"the Lease {self} cannot be renewed: {error}") from error

    async def _renew(self) -> None:
        found = await self._read()
        if found is None:
            raise LeaseLost(f"the Lease {self} was removed by another client")
        if (holder := holder_of(found)) != self.holder:
            raise LeaseLost(f"the Lease {self} is held by {holder or 'no holder'} now")
        try:
            await self._write(found)
        except (Conflict, NotFound):  # another candidate was quicker
            await self._renew()

    async def _release(self) -> None:
        """Release the Lease; if that fails, it expires by itself."""
        with contextlib.suppress(ApiError, OSError):
            async with asyncio.timeout(REQUEST_TIMEOUT):
                found = await self._read()
                if found and holder_of(found) == self.holder:
                    spec = {
                        name: value
                        for name, value in found["spec"].items()
                        if name != "holderIdentity"
                    }
                    await self._api.update(LEASES, {**found, "spec": spec})

    async def _read(self) -> Obj | None:
        try:
            return await self._api.get(LEASES, self._name, self._namespace)
        except NotFound:
            return None

    async def _write(self, before: Obj | None) -> None:
        spec = lease_spec(self.holder, LEASE_DURATION, self._clock.now(), before)
        if before:
            await self._api.update(LEASES, {**before, "spec": spec})
        else:
            metadata = {"name": self._name, "namespace": self._namespace}
            new = {
                "apiVersion": LEASES.api_version,
                "kind": LEASES.kind,
                "metadata": metadata,
                "spec": spec,
            }
            await self._api.create(LEASES, new, self._namespace)


def holder_name(role: str) -> str:
    """Return a holder's name: its role, process and machine."""
    return f"{role}, process {os.getpid()} on {platform.node()}"


def holder_of(lease: Obj) -> str:
    """Return the name of the holder; empty if the Lease was released."""
    return (lease.get("spec") or {}).get("holderIdentity") or ""


def lease_spec(holder: str, lasts: float, now: float, before: Obj | None = None) -> Obj:
    """Return the spec of a Lease that this holder takes or renews now. `before` is the present
    Lease.
    """
    previous = (before or {}).get("spec") or {}
    timestamp, is_ours = timestamp_of(now, micro=True), previous.get("holderIdentity") == holder
    return {
        "holderIdentity": holder,
        "leaseDurationSeconds": int(lasts),
        "acquireTime": previous.get("acquireTime", timestamp) if is_ours else timestamp,
        "renewTime": timestamp,
        "leaseTransitions": previous.get("leaseTransitions", 0) + (not is_ours) if before else 0,
    }
