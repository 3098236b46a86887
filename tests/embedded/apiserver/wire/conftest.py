from __future__ import annotations

import json

import pytest

from pytest_kscen.chance import Chance
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.embedded.apiserver.builtin_kinds import builtin_kinds
from pytest_kscen.embedded.apiserver.kinds import Kinds
from pytest_kscen.embedded.apiserver.server import ApiServer
from pytest_kscen.embedded.apiserver.wire import Wire


class Client:
    """Client that sends requests to the wire and decodes its responses."""

    def __init__(self):
        self.runner = VirtualRunner()
        self.server = ApiServer(self.runner.clock, Chance(1), Kinds(builtin_kinds()))
        self.wire = Wire(self.server)
        self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})

    def raw(self, method, path, body=None, **headers):
        path, _, query = path.partition("?")
        sent = (
            body
            if isinstance(body, bytes)
            else body.encode()
            if isinstance(body, str)
            else json.dumps(body).encode()
            if body
            else b""
        )
        lowered = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.runner.ask(self.wire.call(method, path, query, lowered, sent))

    def ask(self, method, path, body=None, **headers):
        answer = self.raw(method, path, body, **headers)
        return answer.status, json.loads(answer.body)

    def refusal(self, method, path, body=None, **headers):
        status, refused = self.ask(method, path, body, **headers)
        assert (refused["kind"], refused["status"], refused["code"]) == (
            "Status",
            "Failure",
            status,
        )
        return status, refused["message"]

    def frames(self, path, **headers):
        answer = self.raw("GET", path, **headers)
        assert answer.status == 200

        async def read():
            return [json.loads(piece) async for piece in answer.stream]

        return self.runner.call(read())


@pytest.fixture
def client():
    client = Client()
    yield client
    client.runner.close()
