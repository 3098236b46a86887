"""Fixtures of the remote Api, connected to a scripted server."""

from __future__ import annotations

import pytest
from scripted_server import InstantClock, ScriptedServer

from pytest_kscen.clock import WallRunner
from pytest_kscen.kube.remote import Access, Connection, RemoteApi


@pytest.fixture
def runner():
    runner = WallRunner()
    yield runner
    runner.close()


@pytest.fixture
def server(runner):
    server = ScriptedServer(runner)
    runner.call(server.start())
    yield server
    runner.call(server.runner.cleanup())


@pytest.fixture
def clock():
    return InstantClock()


@pytest.fixture
def connection(runner, server, clock):
    connection = Connection(Access(server.url), clock)
    yield connection
    runner.call(connection.close())


@pytest.fixture
def api(connection):
    return RemoteApi(connection)
