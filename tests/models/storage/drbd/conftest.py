import pytest
from kernel_yard import KernelYard

from pytest_kscen.clock import VirtualRunner


@pytest.fixture
def runner():
    runner = VirtualRunner()
    yield runner
    runner.close()


@pytest.fixture
def yard(runner):
    return KernelYard(runner)


@pytest.fixture
def build(runner):
    return lambda *args, **options: KernelYard(runner, *args, **options)
