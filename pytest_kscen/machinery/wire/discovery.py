"""What is served, told to clients: group by group as they used to ask for it, and all at once as they do today."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.kinds import stability

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.machinery.kinds import Kind, Kinds, Subresource
    from pytest_kscen.objects.resources import Obj


def groups_of(kinds: Iterable[Kind]) -> dict[str, dict[str, list[Kind]]]:
    """Group -> version -> kinds: groups as they came (the built-in ones, then those of definitions), newest version first."""
    found: dict[str, dict[str, list[Kind]]] = {}
    for kind in kinds:
        found.setdefault(kind.resource.group, {}).setdefault(kind.resource.version, []).append(kind)
    return {group: dict(sorted(versions.items(), key=_stability, reverse=True)) for group, versions in found.items()}


def _stability(item: tuple[str, Any]) -> tuple[int, int, int]:
    return stability(item[0])


# --- group by group ---


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
    rows = [row for kind in served for row in (_row(kind), *_part_rows(kind))]
    head = {"kind": "APIResourceList", **({"apiVersion": "v1"} if group else {})}
    return {**head, "groupVersion": f"{group}/{version}" if group else version, "resources": rows}


def _row(kind: Kind) -> Obj:
    resource = kind.resource
    return {
        "name": resource.plural,
        "singularName": kind.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(kind.verbs),
        **_names(kind),
    }


def _names(kind: Kind) -> Obj:
    named = {"shortNames": list(kind.short_names), "categories": list(kind.categories)}
    return {name: words for name, words in named.items() if words}


def _part_rows(kind: Kind) -> list[Obj]:
    return [
        {
            "name": f"{kind.resource.plural}/{name}",
            "singularName": "",
            "namespaced": kind.resource.namespaced,
            **_home(part),
            "kind": part.kind or kind.resource.kind,
            "verbs": list(part.verbs),
        }
        for name, part in kind.subresources.items()
    ]


def _home(part: Subresource) -> Obj:
    """Group and version of a subresource's own kind."""
    group, _, version = part.api_version.rpartition("/")
    return {"group": group, "version": version} if part.api_version else {}


# --- all at once ---


def aggregated(kinds: Kinds, *, core: bool, version: str) -> Obj:
    items = [_aggregated_group(name, versions) for name, versions in groups_of(kinds).items() if bool(name) is not core]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": f"apidiscovery.k8s.io/{version}", "metadata": {}, "items": items}


def _aggregated_group(name: str, versions: dict[str, list[Kind]]) -> Obj:
    listed = [
        {"version": version, "resources": [_aggregated_row(kind) for kind in served], "freshness": "Current"}
        for version, served in versions.items()
    ]
    return {"metadata": {"name": name} if name else {}, "versions": listed}


def _aggregated_row(kind: Kind) -> Obj:
    resource = kind.resource
    home = {"group": resource.group, "version": resource.version} if kind.custom else {"group": "", "version": ""}
    parts = [
        {
            "subresource": name,
            "responseKind": {**home, **_home(part), "kind": part.kind or resource.kind},
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
        **_names(kind),
        **({"subresources": parts} if parts else {}),
    }
