"""What is kept of a server's discovery and OpenAPI: shapes and names, and none of the prose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import urllib3

from pytest_kscen.embedded.apiserver.recording_probes import echo_webhook, probe_types, probe_zeros
from pytest_kscen.objects.resources import Resource

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

AGGREGATED_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
DEFINITIONS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ACCOUNTS_PATH = "/api/v1/namespaces/default/serviceaccounts"
WEBHOOKS_PATH = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


class RealServer:
    """The API server that is asked."""

    def __init__(self, url: str, tls: ssl.SSLContext, token: str = "") -> None:
        self._url = url.rstrip("/")
        self._pool = urllib3.PoolManager(ssl_context=tls)
        self._token = token

    def get(self, path: str, accept: str = "application/json") -> Any:
        return self._ask("GET", path, accept=accept)

    def post(self, path: str, body: Any) -> Any:
        return self._ask("POST", path, orjson.dumps(body))

    def delete(self, path: str) -> Any:
        return self._ask("DELETE", path)

    def _ask(
        self, method: str, path: str, body: bytes | None = None, accept: str = "application/json"
    ) -> Any:
        headers = {"Accept": accept, "Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return orjson.loads(
            self._pool.request(method, self._url + path, body=body, headers=headers).data
        )


def record(server: RealServer, folder: Path, listen: str) -> None:
    """Write what is served, and a file of definitions for each Go package that the server's
    types come from.
    """
    foreign = {definition["spec"]["group"] for definition in server.get(DEFINITIONS_PATH)["items"]}
    groups = [
        *server.get("/api", AGGREGATED_DISCOVERY)["items"],
        *server.get("/apis", AGGREGATED_DISCOVERY)["items"],
    ]
    rows = discovery_rows(
        [group for group in groups if group["metadata"].get("name", "") not in foreign]
    )
    definitions = _read_definitions(server, foreign)
    _probe_types_and_zeros(server, definitions, rows, listen)
    for old in folder.glob("*.json"):
        old.unlink()
    files = {"version": server.get("/version"), "resources": rows, "kinds": definitions.by_kind()}
    for name, members in {**files, **definitions.by_package()}.items():
        (folder / f"{name}.json").write_bytes(_one_line_each(members))


def _read_definitions(server: RealServer, foreign: set[str]) -> TypeDefinitions:
    definitions = TypeDefinitions()
    documents = server.get("/openapi/v3")["paths"]
    for path in sorted(documents):
        if foreign.isdisjoint(path.split("/")):
            schemas = (
                server.get(documents[path]["serverRelativeURL"])
                .get("components", {})
                .get("schemas", {})
            )
            for name in sorted(schemas):
                definitions.add(name, schemas[name])
    return definitions


def _probe_types_and_zeros(
    server: RealServer, definitions: TypeDefinitions, rows: dict[str, Any], listen: str
) -> None:
    kinds, roots = definitions.by_kind(), {}
    for name, row in rows.items():
        group, version, plural = name.split("/")
        if "create" in row["verbs"]:
            place = Resource(
                group, version, plural, row["kind"], namespaced=row["namespaced"]
            ).path("default")
            roots[f"{place}?dryRun=All"] = kinds[f"{group}/{version}/{row['kind']}"]
    places = probe_types(server.post, definitions.schemas, roots)
    with echo_webhook(listen) as configuration:
        made = server.post(
            ACCOUNTS_PATH, {"metadata": {"name": "default"}}
        )  # pods need it, if no controller made it
        server.post(WEBHOOKS_PATH, configuration)
        try:
            probe_zeros(server.post, definitions.schemas, places)
        finally:
            server.delete(f"{WEBHOOKS_PATH}/{configuration['metadata']['name']}")
            if "uid" in made.get("metadata", {}):
                server.delete(f"{ACCOUNTS_PATH}/default")


def _one_line_each(members: dict[str, Any]) -> bytes:
    lines = [orjson.dumps(name) + b": " + orjson.dumps(member) for name, member in members.items()]
    return b"{\n" + b",\n".join(lines) + b"\n}\n"


REF = "#/components/schemas/"
GVK = "x-kubernetes-group-version-kind"


class TypeDefinitions:
    """All types that the server knows, each once."""

    def __init__(self) -> None:
        self.schemas: dict[str, dict[str, Any]] = {}

    def add(self, name: str, schema: dict[str, Any]) -> None:
        new = strip_schema(schema)
        old = self.schemas.setdefault(name, new)
        if old != new:  # each document lists its own group's kinds for a shared type
            kinds = {
                (kind["group"], kind["version"], kind["kind"]): kind
                for kind in [*old[GVK], *new[GVK]]
            }
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


def strip_schema(schema: Any) -> Any:
    """Without descriptions; `allOf` with a single reference becomes the reference."""
    if isinstance(schema, list):
        return [strip_schema(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        name: strip_schema(part)
        for name, part in schema.items()
        if not (name == "description" and isinstance(part, str))
    }
    if "$ref" in kept and isinstance(kept["$ref"], str):
        kept["$ref"] = kept["$ref"].removeprefix(REF)
    if (
        isinstance(kept.get("allOf"), list)
        and len(kept["allOf"]) == 1
        and set(kept["allOf"][0]) == {"$ref"}
    ):
        kept["$ref"] = kept.pop("allOf")[0]["$ref"]
    return kept


def discovery_rows(groups: list[Any]) -> dict[str, Any]:
    """Aggregated discovery, in the server's order, by `group/version/plural`."""
    return {
        "/".join(
            (group["metadata"].get("name", ""), version["version"], entry["resource"])
        ): _discovery_row(entry)
        for group in groups
        for version in group["versions"]
        for entry in version["resources"]
    }


def _discovery_row(entry: dict[str, Any]) -> dict[str, Any]:
    subresources = {
        part["subresource"]: _subresource_row(part, entry) for part in entry.get("subresources", [])
    }
    return {
        "singular": entry["singularResource"],
        "kind": entry["responseKind"]["kind"],
        "namespaced": entry["scope"] == "Namespaced",
        "verbs": entry["verbs"],
        **{name: entry[name] for name in ("shortNames", "categories") if name in entry},
        **({"subresources": subresources} if subresources else {}),
    }


def _subresource_row(part: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """Its verbs, and its kind where that is another than the resource's."""
    kind = part["responseKind"]
    api_version = "/".join(word for word in (kind["group"], kind["version"]) if word)
    return {
        "verbs": part["verbs"],
        **({"kind": kind["kind"]} if kind["kind"] != entry["responseKind"]["kind"] else {}),
        **({"apiVersion": api_version} if api_version else {}),
    }
