"""What is kept of a server's discovery and OpenAPI: shapes and names, and none of the prose."""

from __future__ import annotations

from typing import Any

REF = "#/components/schemas/"
GVK = "x-kubernetes-group-version-kind"


class Definitions:
    """All types that the server knows, each once."""

    def __init__(self) -> None:
        self.schemas: dict[str, dict[str, Any]] = {}

    def add(self, name: str, schema: dict[str, Any]) -> None:
        new = stripped(schema)
        old = self.schemas.setdefault(name, new)
        if old != new:  # each document lists its own group's kinds for a shared type
            kinds = {(kind["group"], kind["version"], kind["kind"]): kind for kind in [*old[GVK], *new[GVK]]}
            self.schemas[name] = {**old, GVK: [kinds[key] for key in sorted(kinds)]}

    def by_package(self) -> dict[str, dict[str, Any]]:
        packages: dict[str, dict[str, Any]] = {}
        for name, schema in sorted(self.schemas.items()):
            package, _, local = name.rpartition(".")
            packages.setdefault(package, {})[local] = schema
        return packages

    def by_kind(self) -> dict[str, str]:
        """`group/version/kind` -> the definition, for kinds that have one of their own."""
        found = {}
        for name, schema in sorted(self.schemas.items()):
            kinds = schema.get(GVK, [])
            if len(kinds) == 1:
                found["/".join(kinds[0][part] for part in ("group", "version", "kind"))] = name
        return found


def stripped(schema: Any) -> Any:
    """Without descriptions; `allOf` with a single reference becomes the reference."""
    if isinstance(schema, list):
        return [stripped(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: stripped(part) for name, part in schema.items() if not (name == "description" and isinstance(part, str))}
    if "$ref" in kept and isinstance(kept["$ref"], str):
        kept["$ref"] = kept["$ref"].removeprefix(REF)
    if isinstance(kept.get("allOf"), list) and len(kept["allOf"]) == 1 and set(kept["allOf"][0]) == {"$ref"}:
        kept["$ref"] = kept.pop("allOf")[0]["$ref"]
    return kept


def rows_of(groups: list[Any]) -> dict[str, Any]:
    """Aggregated discovery, in the server's order, by `group/version/plural`."""
    return {
        "/".join((group["metadata"].get("name", ""), version["version"], entry["resource"])): _row(entry)
        for group in groups
        for version in group["versions"]
        for entry in version["resources"]
    }


def _row(entry: dict[str, Any]) -> dict[str, Any]:
    subresources = {part["subresource"]: _subresource(part, entry) for part in entry.get("subresources", [])}
    return {
        "singular": entry["singularResource"],
        "kind": entry["responseKind"]["kind"],
        "namespaced": entry["scope"] == "Namespaced",
        "verbs": entry["verbs"],
        **{name: entry[name] for name in ("shortNames", "categories") if name in entry},
        **({"subresources": subresources} if subresources else {}),
    }


def _subresource(part: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """Its verbs, and its kind where that is another than the resource's."""
    kind = part["responseKind"]
    api_version = "/".join(word for word in (kind["group"], kind["version"]) if word)
    return {
        "verbs": part["verbs"],
        **({"kind": kind["kind"]} if kind["kind"] != entry["responseKind"]["kind"] else {}),
        **({"apiVersion": api_version} if api_version else {}),
    }
