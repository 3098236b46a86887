"""Which resource serves a kind, as the server tells: asked once for each group and version, and again for what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import Resource

if TYPE_CHECKING:
    from pytest_kscen.kube.remote.connection import Connection


class Discovery:
    """What is known of a server's kinds."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[str, dict[str, Resource]] = {}

    async def resource_of(self, api_version: str, kind: str, *, agent: str) -> Resource:
        if kind not in self._known.get(api_version, {}):
            self._known[api_version] = await self._served(api_version, agent)
        found = self._known[api_version].get(kind)
        if found is None:
            raise NotFound(f'no matches for kind "{kind}" in version "{api_version}"')
        return found

    async def _served(self, api_version: str, agent: str) -> dict[str, Resource]:
        group, _, version = api_version.rpartition("/")
        try:
            answer = await self._connection.request("GET", f"/{'apis' if group else 'api'}/{api_version}", agent=agent)
        except NotFound:
            return {}
        return {
            row["kind"]: Resource(group, version, row["name"], row["kind"], namespaced=row["namespaced"])
            for row in orjson.loads(answer)["resources"]
            if "/" not in row["name"]
        }
