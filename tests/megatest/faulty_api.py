"""API that refuses requests, loses responses, drops watches, and is unavailable for a while."""

from __future__ import annotations

from pytest_kscen.kube.api import ForwardingApi
from pytest_kscen.objects.errors import (
    Conflict,
    Expired,
    InternalError,
    ServiceUnavailable,
    TooManyRequests,
)


class FaultyApi(ForwardingApi):
    """Fails one request in four: refused before, or executed with the response lost. Watches break
    after a while.
    """

    def __init__(self, api, world, share=0.25):
        super().__init__(api)
        self.world, self.share = world, share
        self.stream = world.chance.stream("faults")

    async def _disturb(self, verb, request):
        fate = self.stream.between(0, 1) / self.share
        if fate >= 1:
            return await request
        self.world.faults[verb] = self.world.faults.get(verb, 0) + 1
        if fate < 0.5:
            request.close()
            raise (TooManyRequests("slow down"), InternalError("no"), ConnectionResetError("gone"))[
                int(fate * 6)
            ]
        await request
        raise InternalError("the answer was lost")

    async def list(self, resource, namespace="", **options):
        return await self._disturb("list", self._api.list(resource, namespace, **options))

    async def create(self, resource, obj, namespace="", **options):
        return await self._disturb("create", self._api.create(resource, obj, namespace, **options))

    async def patch(self, resource, name, patch, namespace="", **options):
        if self.stream.between(0, 1) < self.share / 2:
            raise Conflict("changed in between")
        return await self._disturb(
            "patch", self._api.patch(resource, name, patch, namespace, **options)
        )

    async def delete(self, resource, name, namespace="", **options):
        return await self._disturb("delete", self._api.delete(resource, name, namespace, **options))

    def watch(self, resource, namespace="", **options):
        return InterruptedWatch(self._api.watch(resource, namespace, **options), self)


class InterruptedWatch:
    """Watch that ends after a while, in one of three ways."""

    def __init__(self, watch, api):
        self.watch, self.api = watch, api
        self.left = api.stream.whole(1, 20)

    def __aiter__(self):
        return self

    async def __anext__(self):
        self.left -= 1
        if self.left < 0:
            self.api.world.faults["watch"] = self.api.world.faults.get("watch", 0) + 1
            raise (StopAsyncIteration(), ConnectionResetError("gone"), Expired("too old"))[
                self.api.stream.below(3)
            ]
        return await self.watch.__anext__()

    def close(self):
        self.watch.close()


class Outage(ForwardingApi):
    """API that is unavailable for one kind during an outage: it refuses requests or does not
    answer.
    """

    def __init__(self, api, day, verb, *, silent):
        super().__init__(api)
        self.day, self.verb = day, verb
        self.error = (
            ConnectionRefusedError("nobody there") if silent else ServiceUnavailable("no leader")
        )

    def check(self, verb):
        if verb == self.verb and self.day.is_out:
            self.day.faults[verb] = self.day.faults.get(verb, 0) + 1
            raise self.error

    async def get(self, *arguments, **options):
        self.check("get")
        return await self._api.get(*arguments, **options)

    async def list(self, *arguments, **options):
        self.check("list")
        return await self._api.list(*arguments, **options)

    async def create(self, *arguments, **options):
        self.check("create")
        return await self._api.create(*arguments, **options)

    async def patch(self, *arguments, **options):
        self.check("patch")
        return await self._api.patch(*arguments, **options)

    async def delete(self, *arguments, **options):
        return await self._api.delete(*arguments, **options)

    def watch(self, *arguments, **options):
        return OutageWatch(self._api.watch(*arguments, **options), self)


class OutageWatch:
    """Watch that an outage ends at the next event."""

    def __init__(self, watch, api):
        self.watch, self.api = watch, api

    def __aiter__(self):
        return self

    async def __anext__(self):
        event = await self.watch.__anext__()
        self.api.check("watch")
        return event

    def close(self):
        self.watch.close()
