"""Api that retries requests after transient errors, with growing delays, for a limited time.

A create whose answer was lost may have succeeded. An object of this name with the same labels is
then returned as its answer. A refusal that follows a lost answer has the lost answer as its cause.
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

FIRST_DELAY, LONGEST_DELAY = 0.5, 15.0  # seconds between two attempts
RETRY_TIME = 300.0  # seconds after which a transient error is final
TRANSIENT_CODES = (429, 500, 502, 503, 504)
AMBIGUOUS_CODES = (
    500,
    502,
    503,
    504,
)  # a proxy in between may have sent these after the server had done the request


def is_transient(error: Exception) -> bool:
    """Return True if the same request may succeed a little later."""
    return isinstance(error, OSError) or (
        isinstance(error, ApiError) and error.status.get("code") in TRANSIENT_CODES
    )


def may_be_done(error: BaseException | None) -> bool:
    """Return True if the request may have been done although it failed: its answer, or one of
    an earlier attempt, was lost.
    """
    if isinstance(error, ApiError):
        return error.status.get("code") in AMBIGUOUS_CODES or may_be_done(error.__cause__)
    return error is not None


class RetryingApi(ForwardingApi):
    """Api that retries every request but watches, which informers reopen themselves."""

    def __init__(
        self, api: Api, clock: Clock, jitter: Stream, retry_time: float = RETRY_TIME
    ) -> None:
        """Prepare the retries. `retry_time` is the limit in seconds for refusals of the server;
        unreachable servers are retried for RETRY_TIME.
        """
        super().__init__(api)
        self._retry_time = retry_time
        self._clock = clock
        self._jitter = jitter

    def with_retry_time(self, seconds: float) -> RetryingApi:
        """Return the same Api with another limit in seconds."""
        return RetryingApi(self._api, self._clock, self._jitter, seconds)

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, subresource: str = ""
    ) -> Obj:
        return await self._retry(
            lambda: self._api.get(resource, name, namespace, subresource=subresource)
        )

    async def list(self, resource: Resource, namespace: str = "", **options: Any) -> Listing:
        return await self._retry(lambda: self._api.list(resource, namespace, **options))

    async def log(self, name: str, namespace: str, *, container: str = "", limit: int = 0) -> str:
        return await self._retry(
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
                if lost and creates and (created := await self._find_created(write)):
                    return created  # type: ignore[no-any-return]
                raise
            except (ApiError, OSError):
                lost = True
                raise

        return await self._retry(
            attempt, may_repeat=_is_conflict_or_transient if repeatable else is_transient
        )

    async def _find_created(self, write: ApiWrite) -> Any:
        """Return the object if it carries the labels of this write: then the create whose answer
        was lost has made it.
        """
        own_labels = write.body["metadata"].get("labels") or {}
        try:
            found = await self._api.get(write.resource, write.name, write.namespace)
        except NotFound:
            return None
        found_labels = found["metadata"].get("labels") or {}  # servers and controllers add some
        return found if own_labels and own_labels.items() <= found_labels.items() else None

    async def _retry(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        may_repeat: Callable[[Exception], bool] = is_transient,
    ) -> T:
        pause, began = FIRST_DELAY, self._clock.now()
        lost: Exception | None = None
        while True:
            try:
                return await attempt()
            except (ApiError, OSError) as error:
                limit = self._retry_time if isinstance(error, ApiError) else RETRY_TIME
                if not may_repeat(error) or self._clock.now() >= began + limit:
                    if lost and not may_be_done(error):
                        raise error from lost
                    raise
                lost = error if may_be_done(error) else lost
            await self._clock.sleep(pause * self._jitter.between(1, 1.5))
            pause = min(pause * 2, LONGEST_DELAY)


def _is_conflict_or_transient(error: Exception) -> bool:
    """Return True for conflicts and transient errors. A request without version and uid cannot be
    outdated, so it can be repeated after a conflict.

    AlreadyExists does not count as a conflict.
    """
    return is_transient(error) or type(error) is Conflict
