import pytest
from plugin_rig import Rig
from scheduler_cluster import SchedulerCluster

from pytest_kscen.chance import Chance
from pytest_kscen.embedded.scheduler.plugins import topology_counts


@pytest.fixture
def make_cluster(api, runner):
    """Return a function that makes a cluster whose scheduler has the given options."""
    return lambda **options: SchedulerCluster(api, runner, Chance("hall"), options)


@pytest.fixture
def cluster(api, runner):
    return SchedulerCluster(api, runner, Chance("hall"))


@pytest.fixture(params=["one by one", "table", "columns"])
def rig(api, runner, request, monkeypatch):
    """Return a small cluster, a large one with few relevant pods, and one with many."""
    monkeypatch.setattr(
        topology_counts,
        "MAX_NODES_ONE_BY_ONE",
        -1 if request.param == "columns" else topology_counts.MAX_NODES_ONE_BY_ONE,
    )
    return Rig(api, runner, large=64 if request.param == "one by one" else 1)
