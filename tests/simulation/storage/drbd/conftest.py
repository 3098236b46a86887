import pytest
from kernel_yard import Cluster

from pytest_kscen.clock import VirtualRunner


@pytest.fixture
def runner():
    runner = VirtualRunner()
    yield runner
    runner.close()


@pytest.fixture
def cluster(runner):
    return Cluster(runner)


@pytest.fixture
def build(runner):
    return lambda *args, **options: Cluster(runner, *args, **options)
