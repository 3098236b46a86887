import pytest

NOT_FOUND = "the server could not find the requested resource"
NOT_ALLOWED = "the server does not allow this method on the requested resource"


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "/api/v1/nope", 404, NOT_FOUND),
        ("GET", "/api/v9/pods", 404, NOT_FOUND),
        ("GET", "/apis/apps/v9", 404, NOT_FOUND),
        ("GET", "/api/v1/pods/p", 404, NOT_FOUND),
        ("GET", "/api/v1/namespaces/default/nodes", 404, NOT_FOUND),
        ("GET", "/api/v1/namespaces/default/pods/p/nope", 404, NOT_FOUND),
        ("GET", "/api/v1/namespaces/default/pods/p/status/more", 404, NOT_FOUND),
        ("POST", "/api/v1/pods", 405, NOT_ALLOWED),
        ("POST", "/api/v1/namespaces/default/pods/p", 405, NOT_ALLOWED),
        ("PUT", "/api/v1/namespaces/default/pods", 405, NOT_ALLOWED),
        ("PATCH", "/api/v1/namespaces/default/pods", 405, NOT_ALLOWED),
        ("DELETE", "/api/v1/pods", 405, NOT_ALLOWED),
        ("DELETE", "/api/v1/namespaces", 405, NOT_ALLOWED),
        ("DELETE", "/api/v1/namespaces/default/pods/p/status", 405, NOT_ALLOWED),
        ("POST", "/api/v1/namespaces/default/pods/p/status", 405, NOT_ALLOWED),
        ("GET", "/api/v1/namespaces/default/pods/p/binding", 405, NOT_ALLOWED),
        ("GET", "/api/v1/namespaces/default/finalize", 405, NOT_ALLOWED),
        ("OPTIONS", "/api/v1/pods", 405, NOT_ALLOWED),
        ("POST", "/version", 405, NOT_ALLOWED),
        ("GET", "/api/v1/namespaces/default/pods/p", 404, 'pods "p" not found'),
        ("GET", "/api/v1/namespaces/default/pods/p?watch=true", 404, 'pods "p" not found'),
    ],
)
def test_refused_routes(client, method, path, status, message):
    assert client.refusal(method, path) == (status, message)


@pytest.mark.parametrize(
    "path",
    ["/nope", "/apis/nope", "/apis/nope/v1/things", "//api/v1/pods", "/healthz/", "/healthz/nope"],
)
def test_unknown_path_is_not_found(client, path):
    answer = client.raw("GET", path)
    assert (answer.status, answer.headers, answer.body) == (
        404,
        {"Content-Type": "text/plain; charset=utf-8"},
        b"404 page not found\n",
    )


def test_namespace_is_resource_and_scope(client):
    assert client.ask("GET", "/api/v1/namespaces/default")[1]["kind"] == "Namespace"
    assert client.ask("GET", "/api/v1/namespaces/default/status")[1]["kind"] == "Namespace"
    assert client.ask("GET", "/api/v1/namespaces/default/pods")[1]["kind"] == "PodList"
    assert client.ask("GET", "/api/v1/namespaces/nowhere/pods")[0] == 200


def test_user_is_passed_to_admission(client, monkeypatch):
    asked = []
    handle = client.server.handle

    async def listen(request):
        asked.append((request.user, request.agent))
        return await handle(request)

    monkeypatch.setattr(client.server, "handle", listen)
    client.raw("GET", "/api/v1/pods", user_agent="kubectl/v1")
    client.raw("GET", "/api/v1/pods", impersonate_user="jane")
    assert asked == [("system:admin", "kubectl/v1"), ("jane", "")]


def test_container_connection_is_refused(client):
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    client.ask("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": spec})
    path = "/api/v1/namespaces/default/pods/p/exec?container=c&command=ls"
    assert client.refusal("POST", path) == (400, "Upgrade request required")
    status, message = client.refusal("POST", path, upgrade="SPDY/3.1")
    assert (status, message.endswith("its log can be read")) == (503, True)
    assert (
        client.refusal("GET", path.replace("=c", "=d"), upgrade="websocket")[1]
        == "container d is not valid for pod p"
    )
