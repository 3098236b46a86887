"""`python -m pytest_kscen record-api --kubeconfig FILE`: record the resources and schemas that a
real API server serves, without descriptions, into the package.

Run it once for each Kubernetes release that the embedded cluster copies.
"""

from __future__ import annotations

import argparse
import ssl
from pathlib import Path

import yaml

from pytest_kscen.embedded.apiserver.recorded import DATA
from pytest_kscen.embedded.apiserver.recording import RealServer, record


def _server_of(options: argparse.Namespace) -> RealServer:
    if options.kubeconfig:
        config = yaml.safe_load(options.kubeconfig.read_text())
        named = {
            section: {entry["name"]: entry for entry in config[section]}
            for section in ("contexts", "clusters", "users")
        }
        context = named["contexts"][config["current-context"]]["context"]
        cluster, user = (
            named["clusters"][context["cluster"]]["cluster"],
            named["users"][context["user"]]["user"],
        )
        tls = ssl.create_default_context(cafile=cluster.get("certificate-authority"))
        if "client-certificate" in user:
            tls.load_cert_chain(user["client-certificate"], user["client-key"])
        return RealServer(cluster["server"], tls, user.get("token", ""))
    return RealServer(options.server, ssl.create_default_context(cafile=options.ca), options.token)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m pytest_kscen record-api", description=__doc__)
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        help="a kubeconfig with files (certificate-authority, client-certificate) or a token",
    )
    parser.add_argument("--server", help="or the server's URL")
    parser.add_argument("--token", default="", help="with --server: a bearer token")
    parser.add_argument("--ca", help="with --server: the certificate authority's file")
    parser.add_argument(
        "--into",
        type=Path,
        default=DATA,
        help="the folder to write to (default: the package's own)",
    )
    parser.add_argument(
        "--listen",
        default="127.0.0.1",
        help="this machine's address as the server sees it, for a webhook",
    )
    options = parser.parse_args(arguments)
    if not options.kubeconfig and not options.server:
        parser.error("name a server: give --kubeconfig FILE, or --server URL with --token and --ca")
    record(_server_of(options), options.into, options.listen)
    return 0
