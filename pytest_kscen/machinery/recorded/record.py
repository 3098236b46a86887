"""Ask a real API server what it serves, strip it of its prose, and write it into the package.

`python -m pytest_kscen record-api --kubeconfig FILE`, run once for each Kubernetes release that we mimic.
"""

from __future__ import annotations

import argparse
import ssl
from pathlib import Path
from typing import Any

import orjson
import urllib3
import yaml

from pytest_kscen.machinery.recorded.probing import probe_types
from pytest_kscen.machinery.recorded.stripping import Definitions, rows_of
from pytest_kscen.machinery.recorded.zeros import echo_webhook, probe_zeros
from pytest_kscen.objects.resources import Resource

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
DEFINITIONS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ACCOUNTS_PATH = "/api/v1/namespaces/default/serviceaccounts"
WEBHOOKS_PATH = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
DATA = Path(__file__).parent / "data"


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

    def _ask(self, method: str, path: str, body: bytes | None = None, accept: str = "application/json") -> Any:
        headers = {"Accept": accept, "Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return orjson.loads(self._pool.request(method, self._url + path, body=body, headers=headers).data)


def record(server: RealServer, folder: Path, listen: str) -> None:
    """Write what is served, and a file of definitions for each Go package that the server's types come from."""
    foreign = {definition["spec"]["group"] for definition in server.get(DEFINITIONS_PATH)["items"]}
    groups = [*server.get("/api", AGGREGATED)["items"], *server.get("/apis", AGGREGATED)["items"]]
    rows = rows_of([group for group in groups if group["metadata"].get("name", "") not in foreign])
    definitions = _definitions(server, foreign)
    _probe(server, definitions, rows, listen)
    for old in folder.glob("*.json"):
        old.unlink()
    files = {"version": server.get("/version"), "resources": rows, "kinds": definitions.by_kind()}
    for name, members in {**files, **definitions.by_package()}.items():
        (folder / f"{name}.json").write_bytes(_a_line_each(members))


def _definitions(server: RealServer, foreign: set[str]) -> Definitions:
    definitions = Definitions()
    documents = server.get("/openapi/v3")["paths"]
    for path in sorted(documents):
        if foreign.isdisjoint(path.split("/")):
            schemas = server.get(documents[path]["serverRelativeURL"]).get("components", {}).get("schemas", {})
            for name in sorted(schemas):
                definitions.add(name, schemas[name])
    return definitions


def _probe(server: RealServer, definitions: Definitions, rows: dict[str, Any], listen: str) -> None:
    kinds, roots = definitions.by_kind(), {}
    for name, row in rows.items():
        group, version, plural = name.split("/")
        if "create" in row["verbs"]:
            place = Resource(group, version, plural, row["kind"], namespaced=row["namespaced"]).path("default")
            roots[f"{place}?dryRun=All"] = kinds[f"{group}/{version}/{row['kind']}"]
    places = probe_types(server.post, definitions.schemas, roots)
    with echo_webhook(listen) as configuration:
        made = server.post(ACCOUNTS_PATH, {"metadata": {"name": "default"}})  # pods need it, if no controller made it
        server.post(WEBHOOKS_PATH, configuration)
        try:
            probe_zeros(server.post, definitions.schemas, places)
        finally:
            server.delete(f"{WEBHOOKS_PATH}/{configuration['metadata']['name']}")
            if "uid" in made.get("metadata", {}):
                server.delete(f"{ACCOUNTS_PATH}/default")


def _a_line_each(members: dict[str, Any]) -> bytes:
    lines = [orjson.dumps(name) + b": " + orjson.dumps(member) for name, member in members.items()]
    return b"{\n" + b",\n".join(lines) + b"\n}\n"


def _server_of(options: argparse.Namespace) -> RealServer:
    if options.kubeconfig:
        return _from_kubeconfig(options.kubeconfig)
    return RealServer(options.server, ssl.create_default_context(cafile=options.ca), options.token)


def _from_kubeconfig(path: Path) -> RealServer:
    config = yaml.safe_load(path.read_text())
    named = {section: {entry["name"]: entry for entry in config[section]} for section in ("contexts", "clusters", "users")}
    context = named["contexts"][config["current-context"]]["context"]
    cluster, user = named["clusters"][context["cluster"]]["cluster"], named["users"][context["user"]]["user"]
    tls = ssl.create_default_context(cafile=cluster.get("certificate-authority"))
    if "client-certificate" in user:
        tls.load_cert_chain(user["client-certificate"], user["client-key"])
    return RealServer(cluster["server"], tls, user.get("token", ""))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m pytest_kscen record-api", description=__doc__)
    parser.add_argument(
        "--kubeconfig", type=Path, help="a kubeconfig with files (certificate-authority, client-certificate) or a token"
    )
    parser.add_argument("--server", help="or the server's URL")
    parser.add_argument("--token", default="", help="with --server: a bearer token")
    parser.add_argument("--ca", help="with --server: the certificate authority's file")
    parser.add_argument("--into", type=Path, default=DATA, help="the folder to write to (default: the package's own)")
    parser.add_argument("--listen", default="127.0.0.1", help="this machine's address as the server sees it, for a webhook")
    options = parser.parse_args(arguments)
    if not options.kubeconfig and not options.server:
        parser.error("say which server: --kubeconfig FILE, or --server URL with --token and --ca")
    record(_server_of(options), options.into, options.listen)
    return 0
