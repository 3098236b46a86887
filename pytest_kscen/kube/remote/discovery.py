"""Which resource serves a kind, as the server tells: asked once for each group and version, and again for what is missing."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.objects.errors import NotFound, ServiceUnavailable
from pytest_kscen.objects.resources import Resource

if TYPE_CHECKING:
    from pytest_kscen.kube.remote.connection import Connection

logger = logging.getLogger(__name__)

KEPT = {"list", "watch", "delete"}  # the verbs of what is kept until somebody deletes it


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

    async def resources(self, *, agent: str) -> list[Resource]:
        """What can be listed, watched and deleted, in the first version of its group that has it, the preferred one first.

        A group that is out of order alone is an aggregated server's, and left out.
        """
        groups = orjson.loads(await self._connection.request("GET", "/apis", agent=agent))["groups"]
        versions = ["v1"]
        for group in groups:
            offered = [version["groupVersion"] for version in group["versions"]]
            versions += sorted(offered, key=lambda version: version != group["preferredVersion"]["groupVersion"])
        found: dict[tuple[str, str], Resource] = {}
        for version in versions:
            for row in await self._answered(version, agent):
                resource = _resource_of(version, row)
                if set(row["verbs"]) >= KEPT:
                    found.setdefault((resource.group, resource.plural), resource)
        return list(found.values())

    async def _served(self, api_version: str, agent: str) -> dict[str, Resource]:
        return {row["kind"]: _resource_of(api_version, row) for row in await self._rows(api_version, agent)}

    async def _answered(self, api_version: str, agent: str) -> list[Any]:
        try:
            return await self._rows(api_version, agent)
        except ServiceUnavailable as error:
            logger.warning("nobody tells what %s has: %s", api_version, error)
            return []

    async def _rows(self, api_version: str, agent: str) -> list[Any]:
        root = "apis" if "/" in api_version else "api"
        try:
            answer = await self._connection.request("GET", f"/{root}/{api_version}", agent=agent)
        except NotFound:
            return []
        return [row for row in orjson.loads(answer)["resources"] if "/" not in row["name"]]


def _resource_of(api_version: str, row: dict[str, Any]) -> Resource:
    group, _, version = api_version.rpartition("/")
    return Resource(group, version, row["name"], row["kind"], namespaced=row["namespaced"])
