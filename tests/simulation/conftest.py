import pytest

from pytest_kscen.chance import Chance
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.kube.inprocess import InProcessApi
from pytest_kscen.machinery.kinds import Kinds
from pytest_kscen.machinery.recorded import builtin_kinds
from pytest_kscen.machinery.server import ApiServer
from pytest_kscen.objects.resources import NAMESPACES


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
    """An API server with the namespaces that a cluster is born with, and nobody behind it."""
    api = InProcessApi(ApiServer(runner.clock, chance, Kinds(builtin_kinds())))
    for name in ("default", "kube-node-lease", "kube-system"):
        runner.call(api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
    return api
