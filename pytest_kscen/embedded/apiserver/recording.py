"""Recording of a real server's discovery and OpenAPI as the data files of `recorded`.

Called by `kscen record-api` against a disposable server. Names and shapes are kept, descriptions
are not.
"""

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
    """Connection to the API server that is recorded: plain JSON requests with a client certificate
    or a token.
    """

    def __init__(self, url: str, tls: ssl.SSLContext, token: str = "") -> None:
        self._url = url.rstrip("/")
        self._pool = urllib3.PoolManager(ssl_context=tls)
        self._token = token

    def get(self, path: str, accept: str = "application/json") -> Any:
        return self._request("GET", path, accept=accept)

    def post(self, path: str, body: Any) -> Any:
        return self._request("POST", path, orjson.dumps(body))

    def delete(self, path: str) -> Any:
        return self._request("DELETE", path)

    def _request(
        self, method: str, path: str, body: bytes | None = None, accept: str = "application/json"
    ) -> Any:
        headers = {"Accept": accept, "Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return orjson.loads(
            self._pool.request(method, self._url + path, body=body, headers=headers).data
        )


def record(server: RealServer, folder: Path, listen: str) -> None:
    """Write the recording of a server to a folder, whose old files are deleted.

    One file per Go package of types. `listen` is the address at which the server can reach a
    webhook of this process.
    """
    foreign = {definition["spec"]["group"] for definition in server.get(DEFINITIONS_PATH)["items"]}
    groups = [
        *server.get("/api", AGGREGATED_DISCOVERY)["items"],
        *server.get("/apis", AGGREGATED_DISCOVERY)["items"],
    ]
    rows = discovery_rows(
        [group for group in groups if group["metadata"].get("name", "") not in foreign]
    )
    definitions = TypeDefinitions()
    documents = server.get("/openapi/v3")["paths"]
    for path in sorted(documents):
        if foreign.isdisjoint(path.split("/")):
            document = server.get(documents[path]["serverRelativeURL"])
            schemas = document.get("components", {}).get("schemas", {})
            for name in sorted(schemas):
                definitions.add(name, schemas[name])
    kinds, roots = definitions.by_kind(), {}
    for name, row in rows.items():
        group, version, plural = name.split("/")
        if "create" in row["verbs"]:
            index = Resource(
                group, version, plural, row["kind"], namespaced=row["namespaced"]
            ).path("default")
            roots[f"{index}?dryRun=All"] = kinds[f"{group}/{version}/{row['kind']}"]
    places = probe_types(server.post, definitions.schemas, roots)
    with echo_webhook(listen) as configuration:
        # pods need it; no controller may have made it
        made = server.post(ACCOUNTS_PATH, {"metadata": {"name": "default"}})
        server.post(WEBHOOKS_PATH, configuration)
        try:
            probe_zeros(server.post, definitions.schemas, places)
        finally:
            server.delete(f"{WEBHOOKS_PATH}/{configuration['metadata']['name']}")
            if "uid" in made.get("metadata", {}):
                server.delete(f"{ACCOUNTS_PATH}/default")
    for old in folder.glob("*.json"):
        old.unlink()
    files = {"version": server.get("/version"), "resources": rows, "kinds": definitions.by_kind()}
    for name, members in {**files, **definitions.by_package()}.items():
        lines = [
            orjson.dumps(member) + b": " + orjson.dumps(content)
            for member, content in members.items()
        ]
        (folder / f"{name}.json").write_bytes(b"{\n" + b",\n".join(lines) + b"\n}\n")


REF = "#/components/schemas/"
GVK = "x-kubernetes-group-version-kind"


class TypeDefinitions:
    """Types of a server by name. Documents that share a type are merged."""

    def __init__(self) -> None:
        self.schemas: dict[str, dict[str, Any]] = {}

    def add(self, name: str, schema: dict[str, Any]) -> None:
        new = strip_schema(schema)
        old = self.schemas.setdefault(name, new)
        if old != new:  # each document lists the kinds of its own group for a shared type
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
        """Return the definition of each `group/version/kind` that has its own."""
        found = {}
        for name, schema in sorted(self.schemas.items()):
            kinds = schema.get(GVK, [])
            if len(kinds) == 1:
                found["/".join(kinds[0][part] for part in ("group", "version", "kind"))] = name
        return found


def strip_schema(schema: Any) -> Any:
    """Return a schema without descriptions. `allOf` with a single reference becomes that
    reference.
    """
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
    """Return the rows of aggregated discovery by `group/version/plural`, in the order of the
    server.
    """
    rows = {}
    for group in groups:
        name = group["metadata"].get("name", "")
        for version in group["versions"]:
            for entry in version["resources"]:
                kind = entry["responseKind"]["kind"]
                subresources = {}
                for part in entry.get("subresources", []):
                    own = part["responseKind"]
                    api_version = "/".join(word for word in (own["group"], own["version"]) if word)
                    subresources[part["subresource"]] = {
                        "verbs": part["verbs"],
                        **({"kind": own["kind"]} if own["kind"] != kind else {}),
                        **({"apiVersion": api_version} if api_version else {}),
                    }
                rows["/".join((name, version["version"], entry["resource"]))] = {
                    "singular": entry["singularResource"],
                    "kind": kind,
                    "namespaced": entry["scope"] == "Namespaced",
                    "verbs": entry["verbs"],
                    **{word: entry[word] for word in ("shortNames", "categories") if word in entry},
                    **({"subresources": subresources} if subresources else {}),
                }
    return rows
