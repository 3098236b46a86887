"""What a server answers beside its resources: discovery, its version, its health, its schemas."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.recorded import version
from pytest_kscen.machinery.wire import discovery
from pytest_kscen.machinery.wire.answers import Reply, WireAnswer, encoded, text
from pytest_kscen.machinery.wire.health import health_of
from pytest_kscen.machinery.wire.media import DISCOVERY, accepted
from pytest_kscen.machinery.wire.routing import unknown_resource, wrong_method

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.machinery.kinds import Kinds
    from pytest_kscen.machinery.wire.media import Media
    from pytest_kscen.machinery.wire.queries import Query
    from pytest_kscen.objects.resources import Obj

BUILD = "+kscen"
OPEN = ("/healthz", "/livez", "/readyz", "/version")
FRESHNESS = {"Vary": "Accept", "Cache-Control": "public"}


class Elsewhere:
    """The rooms beside the resources."""

    def __init__(self, kinds: Kinds, address: str) -> None:
        self._kinds = kinds
        self._address = address

    def answer(self, method: str, path: str, query: Query, headers: Mapping[str, str]) -> WireAnswer:
        path = path.rstrip("/") if path.startswith("/api") else path
        if found := health_of(path, query):
            return found
        first, *rest = path.strip("/").split("/")
        if first in ("api", "apis", "version"):
            return self._described(method, path, first, rest, headers)
        if path == "/":
            return encoded(Reply({"paths": self._paths()}), accepted(""))
        return not_found()

    def _described(self, method: str, path: str, first: str, rest: list[str], headers: Mapping[str, str]) -> WireAnswer:
        found = version_of_server() if path == "/version" else self._discovered(first, rest)
        if found is None:
            if first == "apis" and (not rest or rest[0] not in discovery.groups_of(self._kinds)):
                return not_found()
            raise unknown_resource()
        if method != "GET":
            raise wrong_method()
        whole = path in ("/api", "/apis")
        media = accepted(headers.get("accept", ""), discovery=whole)
        if media.transform == DISCOVERY:
            body = discovery.aggregated(self._kinds, core=path == "/api", version=media.version)
            return tagged(body, media, headers)
        return encoded(Reply(found), media)

    def _discovered(self, first: str, rest: list[str]) -> Obj | None:
        match first, rest:
            case "api", []:
                return discovery.core_versions(self._address)
            case "api", [name]:
                return discovery.resource_list(self._kinds, "", name)
            case "apis", []:
                return discovery.group_list(self._kinds)
            case "apis", [group]:
                return discovery.group_of(self._kinds, group)
            case "apis", [group, name]:
                return discovery.resource_list(self._kinds, group, name)
        return None

    def _paths(self) -> list[str]:
        groups = discovery.groups_of(self._kinds)
        own = [path for group, versions in groups.items() if group for path in _paths_of(group, versions)]
        return sorted(["/api", "/api/v1", "/apis", "/apis/", *own, "/openapi/v2", "/openapi/v3", *OPEN])


def _paths_of(group: str, versions: Any) -> list[str]:
    return [f"/apis/{group}", *(f"/apis/{group}/{name}" for name in versions)]


def version_of_server() -> dict[str, str]:
    """The recorded release, with our mark on it."""
    recorded = version()
    return {**recorded, "gitVersion": recorded["gitVersion"].partition("+")[0] + BUILD}


def tagged(body: Any, media: Media, headers: Mapping[str, str]) -> WireAnswer:
    """An answer that a client keeps until its tag changes."""
    answer = encoded(Reply(body), media)
    tag = f'"{hashlib.sha512(answer.body).hexdigest().upper()}"'
    answer.headers.update(FRESHNESS, ETag=tag)
    if headers.get("if-none-match") == tag:
        return WireAnswer(304, answer.headers)
    return answer


def not_found() -> WireAnswer:
    """What Go's router says where nothing is."""
    return text("404 page not found\n", 404)
