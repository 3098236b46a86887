"""Leader election: whoever holds the Lease leads; who does not renew it in time has lost it, and the others see it run out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.clock import epoch_of
from pytest_kscen.kube.leases import claimed
from pytest_kscen.objects.errors import AlreadyExists, ApiError, Conflict, NotFound
from pytest_kscen.objects.resources import LEASES
from pytest_kscen.objects.storage import NAMESPACE

if TYPE_CHECKING:
    from typing import Never

    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj

NAME = "sds-replicated-volume-controller"
LASTS = 25.0  # seconds for which a renewal holds
RENEW_EVERY = 10.0
RENEW_AGAIN = 2.0  # after a renewal that failed
ASK_AGAIN = 2.0  # where somebody else was quicker, or the API did not answer


class LostError(Exception):
    """Somebody else leads, or may lead."""


class Lease:
    """One candidate's hold on it. Waiting for it is nothing that keeps a test alive."""

    def __init__(self, api: Api, clock: Clock, holder: str) -> None:
        self._api = api
        self._clock = clock
        self._holder = holder
        self._lease: Obj = {}

    async def acquire(self) -> None:
        """Wait until it is ours."""
        while (wait := await self._seconds_to_wait()) > 0:
            await self._clock.sleep(wait, background=True)

    async def keep(self) -> Never:
        """Renew it for ever; raises LostError when that has failed for too long."""
        renewed = self._clock.now()
        while True:
            failed = self._clock.now() > renewed + RENEW_EVERY
            await self._clock.sleep(RENEW_AGAIN if failed else RENEW_EVERY, background=True)
            try:
                await self._write(self._lease)
            except (Conflict, NotFound) as error:
                raise LostError("somebody else has written the lease") from error
            except (ApiError, OSError) as error:
                if self._clock.now() >= renewed + LASTS - RENEW_AGAIN:
                    raise LostError("the lease could not be renewed in time") from error
            else:
                renewed = self._clock.now()

    async def _seconds_to_wait(self) -> float:
        try:
            lease = await self._api.get(LEASES, NAME, NAMESPACE)
            spec = lease["spec"]
            runs_out: float = epoch_of(spec["renewTime"]) + spec["leaseDurationSeconds"]
            if spec["holderIdentity"] != self._holder and self._clock.now() < runs_out:
                return runs_out - self._clock.now()
            await self._write(lease)
        except NotFound:
            return await self._seconds_to_wait_for_the_first()
        except (ApiError, OSError):
            return ASK_AGAIN
        return 0

    async def _seconds_to_wait_for_the_first(self) -> float:
        metadata = {"name": NAME, "namespace": NAMESPACE}
        new = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": metadata,
            "spec": claimed(self._holder, LASTS, self._clock.now()),
        }
        try:
            self._lease = await self._api.create(LEASES, new, NAMESPACE)
        except (AlreadyExists, ApiError, OSError):
            return ASK_AGAIN
        return 0

    async def _write(self, lease: Obj) -> None:
        self._lease = await self._api.update(LEASES, {**lease, "spec": claimed(self._holder, LASTS, self._clock.now(), lease)})
