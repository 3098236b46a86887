"""Ask a real API server what it serves, strip it of its prose, and write it into the package.

`python -m pytest_kscen record-api --kubeconfig FILE`, run once for each Kubernetes release that we mimic.
"""

from __future__ import annotations

import argparse
import ssl
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import orjson
import yaml

from pytest_kscen.machinery.recorded.stripping import Definitions, rows_of

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
DEFINITIONS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DATA = Path(__file__).parent / "data"


class RealServer:
    """The API server that is asked."""

    def __init__(self, url: str, tls: ssl.SSLContext, token: str = "") -> None:
        self._url = url.rstrip("/")
        self._tls = tls
        self._token = token

    def get(self, path: str, accept: str = "application/json") -> Any:
        headers = {"Accept": accept, **({"Authorization": f"Bearer {self._token}"} if self._token else {})}
        request = Request(self._url + path, headers=headers)  # noqa: S310 - the user names the server
        with urlopen(request, context=self._tls, timeout=60) as answer:  # noqa: S310
            return orjson.loads(answer.read())


def record(server: RealServer, folder: Path) -> None:
    """Write what is served, and a file of definitions for each Go package that the server's types come from."""
    foreign = {definition["spec"]["group"] for definition in server.get(DEFINITIONS_PATH)["items"]}
    definitions = Definitions()
    documents = server.get("/openapi/v3")["paths"]
    for path in sorted(documents):
        if foreign.isdisjoint(path.split("/")):
            schemas = server.get(documents[path]["serverRelativeURL"]).get("components", {}).get("schemas", {})
            for name in sorted(schemas):
                definitions.add(name, schemas[name])
    groups = [*server.get("/api", AGGREGATED)["items"], *server.get("/apis", AGGREGATED)["items"]]
    own = [group for group in groups if group["metadata"].get("name", "") not in foreign]
    for old in folder.glob("*.json"):
        old.unlink()
    files = {"version": server.get("/version"), "resources": rows_of(own), "kinds": definitions.by_kind()}
    for name, members in {**files, **definitions.by_package()}.items():
        (folder / f"{name}.json").write_bytes(_a_line_each(members))


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
    options = parser.parse_args(arguments)
    if not options.kubeconfig and not options.server:
        parser.error("say which server: --kubeconfig FILE, or --server URL with --token and --ca")
    record(_server_of(options), options.into)
    return 0
