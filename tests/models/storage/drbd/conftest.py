import pytest
from drbd_kernels import DrbdKernels

from pytest_kscen.clock import VirtualRunner


@pytest.fixture
def runner():
    runner = VirtualRunner()
    yield runner
    runner.close()


@pytest.fixture
def kernels(runner):
    return DrbdKernels(runner)


@pytest.fixture
def build(runner):
    return lambda *args, **options: DrbdKernels(runner, *args, **options)
