"""Api that retries: a request that a server may refuse in passing is repeated with growing
delays, for a stated time.

A create whose answer was lost may have been done. An object of this name that carries our labels
is then the answer. A refusal that follows a lost answer has the loss as its cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pytest_kscen.kube.api import ForwardingApi
from pytest_kscen.objects.errors import AlreadyExists, ApiError, Conflict, NotFound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytest_kscen.chance import Stream
    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api, ApiWrite, Listing
    from pytest_kscen.objects.resources import Obj, Resource

T = TypeVar("T")

FIRST, LONGEST = 0.5, 15.0  # seconds between two attempts
PATIENCE = 300.0  # seconds after which a refusal is one, and silence too
PASSING = (429, 500, 502, 503, 504)
LOST = (500, 502, 503, 504)  # an answer of the way there as much as of the server


def may_pass(error: Exception) -> bool:
    """Return True if the same request may be answered otherwise a little later."""
    return isinstance(error, OSError) or (
        isinstance(error, ApiError) and error.status.get("code") in PASSING
    )


def may_be_done(error: BaseException | None) -> bool:
    """Return True if the request may have been done although it failed: its answer, or one of
    an earlier attempt, was lost.
    """
    if isinstance(error, ApiError):
        return error.status.get("code") in LOST or may_be_done(error.__cause__)
    return error is not None


class RetryingApi(ForwardingApi):
    """Api that retries every request but watches, which informers reopen themselves."""

    def __init__(self, api: Api, clock: Clock, jitter: Stream, patience: float = PATIENCE) -> None:
        """Prepare the retries. `patience` limits the seconds for what the server refuses; a
        server that cannot be reached is waited for as long as the caller lives.
        """
        super().__init__(api)
        self._patience = patience
        self._clock = clock
        self._jitter = jitter

    def with_patience(self, seconds: float) -> RetryingApi:
        """Return the same Api with another limit in seconds."""
        return RetryingApi(self._api, self._clock, self._jitter, seconds)

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, subresource: str = ""
    ) -> Obj:
        return await self._persist(
            lambda: self._api.get(resource, name, namespace, subresource=subresource)
        )

    async def list(self, resource: Resource, namespace: str = "", **options: Any) -> Listing:
        return await self._persist(lambda: self._api.list(resource, namespace, **options))

    async def log(self, name: str, namespace: str, *, container: str = "", limit: int = 0) -> str:
        return await self._persist(
            lambda: self._api.log(name, namespace, container=container, limit=limit)
        )

    async def _write(self, write: ApiWrite, send: Callable[[], Awaitable[T]]) -> T:
        creates = write.verb == "create" and not write.subresource
        repeatable = creates or write.verb == "patch"
        if write.verb == "delete":
            repeatable = not write.has_precondition
        lost = False

        async def attempt() -> T:
            nonlocal lost
            try:
                return await send()
            except AlreadyExists:
                if lost and creates and (made := await self._made_before(write)):
                    return made  # type: ignore[no-any-return]
                raise
            except (ApiError, OSError):
                lost = True
                raise

        return await self._persist(
            attempt, passing=_conflict_or_passing if repeatable else may_pass
        )

    async def _made_before(self, write: ApiWrite) -> Any:
        """Return the object if it carries our labels: the create whose answer was lost made it."""
        ours = write.body["metadata"].get("labels") or {}
        try:
            found = await self._api.get(write.resource, write.name, write.namespace)
        except NotFound:
            return None
        theirs = found["metadata"].get("labels") or {}  # servers and controllers add some
        return found if ours and ours.items() <= theirs.items() else None

    async def _persist(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        passing: Callable[[Exception], bool] = may_pass,
    ) -> T:
        pause, began = FIRST, self._clock.now()
        lost: Exception | None = None
        while True:
            try:
                return await attempt()
            except (ApiError, OSError) as error:
                patience = self._patience if isinstance(error, ApiError) else PATIENCE
                if not passing(error) or self._clock.now() >= began + patience:
                    if lost and not may_be_done(error):
                        raise error from lost
                    raise
                lost = error if may_be_done(error) else lost
            await self._clock.sleep(pause * self._jitter.between(1, 1.5))
            pause = min(pause * 2, LONGEST)


def _conflict_or_passing(error: Exception) -> bool:
    """Return True for a conflict, too: a request without version and uid cannot be out of date,
    so it can be repeated.

    AlreadyExists is no such conflict.
    """
    return may_pass(error) or type(error) is Conflict
