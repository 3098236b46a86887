"""Paths beside the resources: discovery, version and health; OpenAPI is delegated to `openapi`.

Discovery is served group by group and aggregated. Reads `Kinds` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.kinds import stability
from pytest_kscen.embedded.apiserver.recorded import version
from pytest_kscen.embedded.apiserver.wire.media_types import (
    AS_DISCOVERY,
    CORE_DISCOVERY,
    CORE_RESOURCES,
    GROUP,
    GROUPS,
    PLAIN,
    VERSION,
    negotiate,
)
from pytest_kscen.embedded.apiserver.wire.openapi import answer_openapi
from pytest_kscen.embedded.apiserver.wire.requests import unknown_resource, wrong_method
from pytest_kscen.embedded.apiserver.wire.responses import (
    Reply,
    WireAnswer,
    encode_reply,
    text_answer,
    with_etag,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_kscen.embedded.apiserver.kinds import Kind, Kinds, Subresource
    from pytest_kscen.embedded.apiserver.wire.queries import Query
    from pytest_kscen.objects.resources import Obj


def groups_of(kinds: Iterable[Kind]) -> dict[str, dict[str, list[Kind]]]:
    """Return group -> version -> kinds.

    Groups in order of registration, built-in ones first; versions newest first.
    """
    found: dict[str, dict[str, list[Kind]]] = {}
    for kind in kinds:
        found.setdefault(kind.resource.group, {}).setdefault(kind.resource.version, []).append(kind)
    return {
        group: dict(sorted(versions.items(), key=lambda item: stability(item[0]), reverse=True))
        for group, versions in found.items()
    }


# Discovery by group.


def core_versions(address: str) -> Obj:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list(kinds: Kinds) -> Obj:
    groups = [_group(name, versions) for name, versions in groups_of(kinds).items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group_of(kinds: Kinds, name: str) -> Obj | None:
    versions = groups_of(kinds).get(name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)} if versions else None


def _group(name: str, versions: Iterable[str]) -> Obj:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def resource_list(kinds: Kinds, group: str, version: str) -> Obj | None:
    served = groups_of(kinds).get(group, {}).get(version)
    if not served:
        return None
    rows: list[Obj] = []
    for kind in served:
        resource = kind.resource
        whole = {
            "name": resource.plural,
            "singularName": kind.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(kind.verbs),
            **_optional_names(kind),
        }
        parts = [
            {
                "name": f"{resource.plural}/{name}",
                "singularName": "",
                "namespaced": resource.namespaced,
                **_group_version(part),
                "kind": part.kind or resource.kind,
                "verbs": list(part.verbs),
            }
            for name, part in kind.subresources.items()
        ]
        rows += [whole, *parts]
    head = {"kind": "APIResourceList", **({"apiVersion": "v1"} if group else {})}
    return {**head, "groupVersion": f"{group}/{version}" if group else version, "resources": rows}


def _optional_names(kind: Kind) -> Obj:
    named = {"shortNames": list(kind.short_names), "categories": list(kind.categories)}
    return {name: words for name, words in named.items() if words}


def _group_version(part: Subresource) -> Obj:
    """Return group and version of a subresource's own kind; empty if it has none."""
    group, _, version = part.api_version.rpartition("/")
    return {"group": group, "version": version} if part.api_version else {}


# Aggregated discovery.


def aggregated_discovery(kinds: Kinds, *, core: bool, version: str) -> Obj:
    items = [
        {
            "metadata": {"name": name} if name else {},
            "versions": [
                {
                    "version": group_version,
                    "resources": [_aggregated_entry(kind) for kind in served],
                    "freshness": "Current",
                }
                for group_version, served in versions.items()
            ],
        }
        for name, versions in groups_of(kinds).items()
        if bool(name) is not core
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def _aggregated_entry(kind: Kind) -> Obj:
    resource = kind.resource
    home = (
        {"group": resource.group, "version": resource.version}
        if kind.custom
        else {"group": "", "version": ""}
    )
    parts = [
        {
            "subresource": name,
            "responseKind": {**home, **_group_version(part), "kind": part.kind or resource.kind},
            "verbs": list(part.verbs),
        }
        for name, part in kind.subresources.items()
    ]
    return {
        "resource": resource.plural,
        "responseKind": {**home, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
        **_optional_names(kind),
        **({"subresources": parts} if parts else {}),
    }


# Health: the server is ready as soon as it answers.


CHECKS = {
    "healthz": ("ping", "log", "etcd"),
    "livez": ("ping", "log", "etcd"),
    "readyz": ("ping", "log", "etcd", "etcd-readiness", "informer-sync", "shutdown"),
}


def health_of(path: str, query: Query) -> WireAnswer | None:
    """Return the answer of /healthz, /livez, /readyz and their checks; None for other paths."""
    endpoint, slash, check = path.removeprefix("/").partition("/")
    checks = CHECKS.get(endpoint)
    if not checks:
        return None
    if slash:
        return text_answer("ok") if check in checks else None
    excluded = query.texts("exclude")
    if query.flag("verbose") is None:
        return text_answer("ok")
    lines = [f"[+]{name} excluded: ok" if name in excluded else f"[+]{name} ok" for name in checks]
    return text_answer("\n".join([*lines, f"{endpoint} check passed", ""]))


BUILD = "+kscen"
PUBLIC_PATHS = ("/healthz", "/livez", "/readyz", "/version")
OFFERS = {
    ("api", False): CORE_DISCOVERY,
    ("api", True): CORE_RESOURCES,
    ("apis", False): GROUPS,
    ("apis", True): GROUP,
    ("version", False): VERSION,
}
FRESHNESS = {"Vary": "Accept", "Cache-Control": "public"}


class NonResourcePaths:
    """Answers of all paths that are no resources.

    Built-in and custom groups share one discovery, which is read at each request.
    """

    def __init__(self, kinds: Kinds, address: str) -> None:
        self._kinds = kinds
        self._address = address

    def is_unknown_group(self, group: str) -> bool:
        return bool(group) and not any(kind.resource.group == group for kind in self._kinds)

    def answer(
        self, method: str, path: str, query: Query, headers: Mapping[str, str]
    ) -> WireAnswer:
        first, *rest = path.strip("/").split("/")
        if first in ("api", "apis", "version") and not path.startswith("//"):
            if method != "GET" and (first, rest) != ("apis", []):
                raise wrong_method()
            described = (
                version_of_server()
                if (first, rest) == ("version", [])
                else self._discovered(first, rest)
            )
            if described is None:
                if first == "apis" and self.is_unknown_group(rest[0]):
                    return not_found()
                raise unknown_resource()
            media = negotiate(headers.get("accept", ""), OFFERS[first, bool(rest)])
            if media.transform == AS_DISCOVERY:
                body = aggregated_discovery(self._kinds, core=first == "api", version=media.version)
                answer = encode_reply(Reply(body), media)
                answer.headers.update(FRESHNESS)
                return with_etag(answer, headers)
            return encode_reply(Reply(described), media)
        if path == "/":
            groups = groups_of(self._kinds)
            own = [
                path
                for group, versions in groups.items()
                if group
                for path in (f"/apis/{group}", *(f"/apis/{group}/{name}" for name in versions))
            ]
            return encode_reply(
                Reply(
                    {
                        "paths": sorted(
                            [
                                "/api",
                                "/api/v1",
                                "/apis",
                                "/apis/",
                                *own,
                                "/openapi/v2",
                                "/openapi/v3",
                                *PUBLIC_PATHS,
                            ]
                        )
                    }
                ),
                PLAIN,
            )
        found = (
            answer_openapi(self._kinds, path, query, headers)
            if first == "openapi"
            else health_of(path, query)
        )
        return found or not_found()

    def _discovered(self, first: str, rest: list[str]) -> Obj | None:
        match first, rest:
            case "api", []:
                return core_versions(self._address)
            case "api", [name]:
                return resource_list(self._kinds, "", name)
            case "apis", []:
                return group_list(self._kinds)
            case "apis", [group]:
                return group_of(self._kinds, group)
            case "apis", [group, name]:
                return resource_list(self._kinds, group, name)
        return None


def version_of_server() -> dict[str, str]:
    recorded = version()
    return {**recorded, "gitVersion": recorded["gitVersion"].partition("+")[0] + BUILD}


def not_found() -> WireAnswer:
    return text_answer("404 page not found\n", 404)
