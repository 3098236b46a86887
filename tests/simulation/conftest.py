import pytest

from pytest_kscen.chance import Chance
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.kube.inprocess import InProcessApi
from pytest_kscen.machinery.kinds import Kind, Kinds
from pytest_kscen.machinery.server import ApiServer
from pytest_kscen.objects import resources
from pytest_kscen.objects.resources import Resource

RESOURCES = [row for row in vars(resources).values() if isinstance(row, Resource)]


@pytest.fixture
def runner():
    runner = VirtualRunner()
    yield runner
    runner.close()


@pytest.fixture
def chance():
    return Chance("simulation")


@pytest.fixture
def api(runner, chance):
    """An API server that knows the kinds by name and takes them as they are."""
    kinds = Kinds(Kind(resource, subresources=frozenset({"status"})) for resource in RESOURCES)
    return InProcessApi(ApiServer(runner.clock, chance, kinds))
