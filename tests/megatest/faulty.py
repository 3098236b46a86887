"""An API as a bad day has it: it refuses, loses its answers, and drops watches."""

from __future__ import annotations

from pytest_kscen.kube.forwarding import ForwardingApi
from pytest_kscen.objects.errors import Conflict, Expired, InternalError, TooManyRequests


class Faulty(ForwardingApi):
    """One request in four goes wrong: refused beforehand, or done and its answer lost. Watches break off after a while."""

    def __init__(self, api, world, share=0.25):
        super().__init__(api)
        self.world, self.share = world, share
        self.stream = world.chance.stream("faults")

    async def _shaken(self, verb, request):
        fate = self.stream.between(0, 1) / self.share
        if fate >= 1:
            return await request
        self.world.faults[verb] = self.world.faults.get(verb, 0) + 1
        if fate < 0.5:
            request.close()
            raise (TooManyRequests("slow down"), InternalError("no"), ConnectionResetError("gone"))[int(fate * 6)]
        await request
        raise InternalError("the answer was lost")

    async def list(self, resource, namespace="", **options):
        return await self._shaken("list", self._api.list(resource, namespace, **options))

    async def create(self, resource, obj, namespace="", **options):
        return await self._shaken("create", self._api.create(resource, obj, namespace, **options))

    async def patch(self, resource, name, patch, namespace="", **options):
        if self.stream.between(0, 1) < self.share / 2:
            raise Conflict("changed in between")
        return await self._shaken("patch", self._api.patch(resource, name, patch, namespace, **options))

    async def delete(self, resource, name, namespace="", **options):
        return await self._shaken("delete", self._api.delete(resource, name, namespace, **options))

    def watch(self, resource, namespace="", **options):
        return Broken(self._api.watch(resource, namespace, **options), self)


class Broken:
    """A watch that ends by and by, in one of three ways."""

    def __init__(self, watch, api):
        self.watch, self.api = watch, api
        self.left = api.stream.whole(1, 20)

    def __aiter__(self):
        return self

    async def __anext__(self):
        self.left -= 1
        if self.left < 0:
            self.api.world.faults["watch"] = self.api.world.faults.get("watch", 0) + 1
            raise (StopAsyncIteration(), ConnectionResetError("gone"), Expired("too old"))[self.api.stream.below(3)]
        return await self.watch.__anext__()

    def close(self):
        self.watch.close()
