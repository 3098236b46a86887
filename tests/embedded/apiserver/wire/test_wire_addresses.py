import pytest

from pytest_kscen.embedded.apiserver.wire.requests import ResourcePath, parse_path


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/api/v1/pods", ResourcePath("", "v1", "pods")),
        ("/api/v1/pods/", ResourcePath("", "v1", "pods")),
        ("/api/v1/namespaces/n/pods/p", ResourcePath("", "v1", "pods", "n", "p")),
        ("/api/v1/namespaces/n/pods/p/log", ResourcePath("", "v1", "pods", "n", "p", "log")),
        ("/api/v1/nodes/n/proxy/a/b", ResourcePath("", "v1", "nodes", "", "n", "proxy", "a/b")),
        ("/api/v1/namespaces", ResourcePath("", "v1", "namespaces")),
        ("/api/v1/namespaces/n", ResourcePath("", "v1", "namespaces", "", "n")),
        ("/api/v1/namespaces/n/status", ResourcePath("", "v1", "namespaces", "", "n", "status")),
        (
            "/api/v1/namespaces/n/finalize",
            ResourcePath("", "v1", "namespaces", "", "n", "finalize"),
        ),
        ("/apis/a.b/v1/namespaces/n/status", ResourcePath("a.b", "v1", "status", "n")),
        (
            "/apis/apps/v1/namespaces/n/deployments/d/scale",
            ResourcePath("apps", "v1", "deployments", "n", "d", "scale"),
        ),
        (
            "/api/v1/watch/namespaces/n/pods/p",
            ResourcePath("", "v1", "pods", "n", "p", watched=True),
        ),
        ("/api/v1/namespaces/n/configmaps/a%20b", ResourcePath("", "v1", "configmaps", "n", "a b")),
        ("/api/v1/namespaces/a%2Fb/pods", ResourcePath("", "v1", "b", "a", "pods")),
        ("/api", None),
        ("/api/v1", None),
        ("/apis/apps", None),
        ("/apis/apps/v1", None),
        ("/version", None),
        ("/", None),
        ("", None),
    ],
)
def test_path_is_parsed(path, address):
    assert parse_path(path) == address
