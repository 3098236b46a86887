import pytest

from pytest_kscen.embedded.apiserver.wire.responses import TextStream
from pytest_kscen.objects.errors import BadRequest

POD = "/api/v1/namespaces/default/pods/p"


class LogChunks:
    """Log stream that yields given chunks."""

    def __init__(self, *pieces):
        self.pieces = list(pieces)
        self.closed = False

    async def __anext__(self):
        if not self.pieces:
            raise StopAsyncIteration
        return self.pieces.pop(0)

    def close(self):
        self.closed = True


class Kubelet:
    """Kubelet with one log."""

    def __init__(self):
        self.followed = LogChunks("é\n", "two\n")

    async def read(self, _namespace, _pod, container, options):
        return f"{container} {options}"

    def follow(self, _namespace, _pod, container, options):
        if container == "other":
            raise BadRequest("it is not written yet")
        assert options["tailLines"] == "1"
        return self.followed


@pytest.fixture
def kubelet(client):
    client.server.core.logs = Kubelet()
    spec = {
        "nodeName": "n",
        "containers": [{"name": "c", "image": "i"}, {"name": "other", "image": "i"}],
    }
    client.ask("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": spec})
    return client.server.core.logs


def test_log_is_text(client, kubelet):
    assert client.refusal("GET", f"{POD}/log", accept="text/html")[1].startswith(
        "406: Not Acceptable"
    )
    assert client.refusal("GET", f"{POD}/log", accept="text/plain")[1].startswith(
        "only the following media types"
    )
    answer = client.raw(
        "GET", f"{POD}/log?container=c&tailLines=1&unknown=x", accept="text/plain, */*"
    )
    assert (answer.status, answer.headers) == (200, {"Content-Type": "text/plain; charset=utf-8"})
    assert answer.body == b"c {'container': 'c', 'tailLines': '1'}"


def test_followed_log_is_stream(client, kubelet):
    answer = client.raw("GET", f"{POD}/log?container=c&tailLines=1&follow=true")
    assert isinstance(answer.stream, TextStream)

    async def read():
        return [piece async for piece in answer.stream]

    assert client.runner.call(read()) == ["é\n".encode(), b"two\n"]
    answer.stream.close()
    assert kubelet.followed.closed


def test_invalid_follow_request_is_refused(client, kubelet):
    assert client.refusal("GET", f"{POD}/log?follow=true&container=other") == (
        400,
        "it is not written yet",
    )
    assert client.refusal("GET", f"{POD}x/log?follow=true")[0] == 404
