import pytest

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner


@pytest.fixture
def runner():
    cluster = EmbeddedCluster(1, nodes=0)
    runner = ScenarioRunner(cluster, Plan())
    yield runner
    runner.close()
    cluster.close()
