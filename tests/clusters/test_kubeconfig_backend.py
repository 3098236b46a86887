from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kscen.clusters import kubeconfig, open_cluster
from pytest_kscen.clusters import kubeconfig as contexts
from pytest_kscen.clusters.cluster import ClusterRefused
from pytest_kscen.clusters.kubeconfig import KubeconfigCluster
from pytest_kscen.megatest.churn import Churn, draw
from pytest_kscen.run.context import Run
from pytest_kscen.run.plan import Plan

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator


def write_kubeconfig(path: pathlib.Path, server: str, *names: str, **user: Any) -> pathlib.Path:
    """Write a kubeconfig with a context of each name; the first is current."""
    path.write_text(
        json.dumps(
            {
                "clusters": [{"name": name, "cluster": {"server": server}} for name in names],
                "users": [
                    {"name": name, "user": user or {"token": f"{name}-token"}} for name in names
                ],
                "contexts": [
                    {"name": name, "context": {"cluster": name, "user": name}} for name in names
                ],
                "current-context": names[0],
            }
        )
    )
    return path


class Handler(BaseHTTPRequestHandler):
    """API server that accepts one token."""

    def do_GET(self):
        code = 200 if self.headers["Authorization"] == "Bearer b-token" else 401
        self.send_response(code)
        self.end_headers()
        self.wfile.write(b'{"major": "1"}' if code == 200 else b"who are you?")

    def log_message(self, *_):
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Handler) as served:
        thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def isolated_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)


def test_foreign_cluster_is_not_owned(tmp_path, server):
    path = write_kubeconfig(tmp_path / "k", server, "b")
    with contextlib.closing(open_cluster("kubeconfig", seed="1", kubeconfig=path)) as cluster:
        assert cluster.backend == "kubeconfig"
        assert not cluster.owned
        assert cluster.kubeconfig == path
        assert cluster.client.configuration.host == server


def run_context_on(cluster):
    run = Run(cluster, Plan(Churn()))
    run.journal.close()
    return run.context


def test_runs_of_equal_seed_have_distinct_names(tmp_path, server):
    """With equal names a run would take the other's volumes, policies and Jobs for its own."""
    path = write_kubeconfig(tmp_path / "k", server, "b")
    with (
        contextlib.closing(KubeconfigCluster(path, seed="1")) as one,
        contextlib.closing(KubeconfigCluster(path, seed="1")) as other,
    ):
        first, second = (run_context_on(cluster) for cluster in (one, other))
        assert first.run_id != second.run_id
        destinies = [
            draw(context.actor("multivolume").chance, Churn()) for context in (first, second)
        ]
        assert destinies[0].name != destinies[1].name
        assert destinies[0] == dataclasses.replace(destinies[1], name=destinies[0].name), (
            "what happens is the seed's"
        )


def test_selected_context_is_current_in_kubeconfig_copy(tmp_path, server):
    path = write_kubeconfig(tmp_path / "k", server, "a", "b")
    cluster = KubeconfigCluster(path, "b")
    copy = cluster.kubeconfig
    assert json.loads(copy.read_text())["current-context"] == "b"
    cluster.close()
    assert not copy.exists()


def test_default_kubeconfig_is_that_of_kubectl(tmp_path, server, monkeypatch):
    write_kubeconfig(tmp_path / "first", server, "b")
    write_kubeconfig(tmp_path / "second", "http://127.0.0.1:1", "b", "c")
    monkeypatch.setenv(
        "KUBECONFIG", f"{tmp_path / 'first'}:{tmp_path / 'second'}:{tmp_path / 'absent'}"
    )
    with contextlib.closing(KubeconfigCluster()) as cluster:
        merged = json.loads(cluster.kubeconfig.read_text())
    assert [context["name"] for context in merged["contexts"]] == ["b", "c"]
    assert merged["clusters"][0]["cluster"]["server"] == server

    (tmp_path / ".kube").mkdir()
    write_kubeconfig(tmp_path / ".kube" / "config", server, "b")
    monkeypatch.delenv("KUBECONFIG")
    with contextlib.closing(KubeconfigCluster()) as cluster:
        assert cluster.kubeconfig == tmp_path / ".kube" / "config"


def test_kubeconfig_copy_has_absolute_paths(tmp_path):
    path = write_kubeconfig(
        tmp_path / "k", "http://x", "a", **{"client-key": "keys/a.key", "tokenFile": "/run/token"}
    )
    (user,) = contexts.merged_kubeconfig(str(path))["users"]
    assert user["user"] == {"client-key": str(tmp_path / "keys/a.key"), "tokenFile": "/run/token"}


def refusal(*arguments: Any) -> str:
    with pytest.raises(ClusterRefused) as refused:
        KubeconfigCluster(*arguments)
    return str(refused.value)


def test_unreachable_server_is_refused_with_remedy(tmp_path):
    with contextlib.closing(socket.socket()) as unheard:
        unheard.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unheard.getsockname()[1]}"
        path = write_kubeconfig(tmp_path / "k", url, "a")
        assert refusal(path) == (
            f"the cluster of context 'a' in {path} ({url}) is not reachable: GET "
            f"{url}/version: connection refused. "
            f"Try `kubectl --kubeconfig {path} --context a version`, "
            "or choose another with --kubeconfig FILE and --kscen-context NAME"
        )


def test_silent_server_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(kubeconfig, "VERSION_TIMEOUT", 0.2)
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as silent:
        path = write_kubeconfig(tmp_path / "k", f"http://127.0.0.1:{silent.getsockname()[1]}", "a")
        assert "did not respond within 0 s" in refusal(path)


def test_unauthorized_credentials_are_refused(tmp_path, server):
    path = write_kubeconfig(tmp_path / "k", server, "a")
    assert f"({server}) refuses the request: 401 who are you?. Try" in refusal(path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("a: [b", r"is not a kubeconfig \(while parsing"),
        (
            "contexts: [a]",
            "is not a kubeconfig: clusters, users, contexts must be lists of objects with a name",
        ),
        ("just words", "is not a kubeconfig: clusters, users, contexts must be lists"),
        (
            "",
            (
                r"has no current context; its contexts are: \(none\)\. Name one with "
                r"--kscen-context NAME"
            ),
        ),
    ],
)
def test_malformed_kubeconfig_is_refused(tmp_path, content, complaint):
    (tmp_path / "k").write_text(content)
    assert re.search(complaint, refusal(tmp_path / "k"))


def test_missing_context_error_lists_contexts(tmp_path):
    path = write_kubeconfig(tmp_path / "k", "http://x", "a", "b")
    assert refusal(path, "c") == (
        f"there is no context 'c' in {path}; its contexts are: a, b. Name one with "
        "--kscen-context NAME"
    )


def test_missing_kubeconfig_is_refused(tmp_path):
    assert refusal() == "no kubeconfig at ~/.kube/config: choose another with --kubeconfig FILE"


def test_missing_certificate_is_named(tmp_path):
    path = write_kubeconfig(
        tmp_path / "k", "https://x", "a", **{"client-certificate": "absent.crt"}
    )
    assert "cannot be used: File does not exist: " in refusal(path)
