"""What a server answers beside its resources: discovery, its version, its health, its schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.recorded import version
from pytest_kscen.machinery.wire import discovery
from pytest_kscen.machinery.wire.answers import Reply, WireAnswer, encoded, tagged, text
from pytest_kscen.machinery.wire.health import health_of
from pytest_kscen.machinery.wire.media import AS_DISCOVERY, CORE_DISCOVERY, CORE_RESOURCES, GROUP, GROUPS, PLAIN, VERSION, accepted
from pytest_kscen.machinery.wire.routing import unknown_resource, wrong_method
from pytest_kscen.machinery.wire.schemas import schemas_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.machinery.kinds import Kinds
    from pytest_kscen.machinery.wire.queries import Query
    from pytest_kscen.objects.resources import Obj

BUILD = "+kscen"
OPEN = ("/healthz", "/livez", "/readyz", "/version")
OFFERS = {
    ("api", False): CORE_DISCOVERY,
    ("api", True): CORE_RESOURCES,
    ("apis", False): GROUPS,
    ("apis", True): GROUP,
    ("version", False): VERSION,
}
FRESHNESS = {"Vary": "Accept", "Cache-Control": "public"}


class Elsewhere:
    """The rooms beside the resources."""

    def __init__(self, kinds: Kinds, address: str) -> None:
        self._kinds = kinds
        self._address = address

    def is_strange(self, group: str) -> bool:
        """Whether nothing of this group is served."""
        return bool(group) and not any(kind.resource.group == group for kind in self._kinds)

    def answer(self, method: str, path: str, query: Query, headers: Mapping[str, str]) -> WireAnswer:
        first, *rest = path.strip("/").split("/")
        if first in ("api", "apis", "version") and not path.startswith("//"):
            return self._described(method, first, rest, headers)
        if path == "/":
            return encoded(Reply({"paths": self._paths()}), PLAIN)
        found = schemas_of(self._kinds, path, query, headers) if first == "openapi" else health_of(path, query)
        return found or not_found()

    def _described(self, method: str, first: str, rest: list[str], headers: Mapping[str, str]) -> WireAnswer:
        if method != "GET" and (first, rest) != ("apis", []):
            raise wrong_method()
        described = version_of_server() if (first, rest) == ("version", []) else self._discovered(first, rest)
        if described is None:
            if first == "apis" and self.is_strange(rest[0]):
                return not_found()
            raise unknown_resource()
        media = accepted(headers.get("accept", ""), OFFERS[first, bool(rest)])
        if media.transform == AS_DISCOVERY:
            body = discovery.aggregated(self._kinds, core=first == "api", version=media.version)
            answer = encoded(Reply(body), media)
            answer.headers.update(FRESHNESS)
            return tagged(answer, headers)
        return encoded(Reply(described), media)

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


def not_found() -> WireAnswer:
    """What Go's router says where nothing is."""
    return text("404 page not found\n", 404)
