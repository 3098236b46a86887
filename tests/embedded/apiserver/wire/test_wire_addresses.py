import pytest

from pytest_kscen.embedded.apiserver.wire.requests import Address, address_of


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/api/v1/pods", Address("", "v1", "pods")),
        ("/api/v1/pods/", Address("", "v1", "pods")),
        ("/api/v1/namespaces/n/pods/p", Address("", "v1", "pods", "n", "p")),
        ("/api/v1/namespaces/n/pods/p/log", Address("", "v1", "pods", "n", "p", "log")),
        ("/api/v1/nodes/n/proxy/a/b", Address("", "v1", "nodes", "", "n", "proxy", "a/b")),
        ("/api/v1/namespaces", Address("", "v1", "namespaces")),
        ("/api/v1/namespaces/n", Address("", "v1", "namespaces", "", "n")),
        ("/api/v1/namespaces/n/status", Address("", "v1", "namespaces", "", "n", "status")),
        ("/api/v1/namespaces/n/finalize", Address("", "v1", "namespaces", "", "n", "finalize")),
        ("/apis/a.b/v1/namespaces/n/status", Address("a.b", "v1", "status", "n")),
        (
            "/apis/apps/v1/namespaces/n/deployments/d/scale",
            Address("apps", "v1", "deployments", "n", "d", "scale"),
        ),
        ("/api/v1/watch/namespaces/n/pods/p", Address("", "v1", "pods", "n", "p", watched=True)),
        ("/api/v1/namespaces/n/configmaps/a%20b", Address("", "v1", "configmaps", "n", "a b")),
        ("/api/v1/namespaces/a%2Fb/pods", Address("", "v1", "b", "a", "pods")),
        ("/api", None),
        ("/api/v1", None),
        ("/apis/apps", None),
        ("/apis/apps/v1", None),
        ("/version", None),
        ("/", None),
        ("", None),
    ],
)
def test_what_a_path_names(path, address):
    assert address_of(path) == address
