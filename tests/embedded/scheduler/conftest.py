import pytest
from hall import Hall
from plugin_rig import Rig

from pytest_kscen.chance import Chance
from pytest_kscen.embedded.scheduler.plugins import topology_counts


@pytest.fixture
def halls(api, runner):
    """A hall whose scheduler gets these options."""
    return lambda **options: Hall(api, runner, Chance("hall"), options)


@pytest.fixture
def hall(api, runner):
    return Hall(api, runner, Chance("hall"))


@pytest.fixture(params=["one by one", "table", "columns"])
def rig(api, runner, request, monkeypatch):
    """In a small cluster; in a large one with few pods that matter; with many."""
    monkeypatch.setattr(
        topology_counts,
        "MAX_NODES_ONE_BY_ONE",
        -1 if request.param == "columns" else topology_counts.MAX_NODES_ONE_BY_ONE,
    )
    return Rig(api, runner, large=64 if request.param == "one by one" else 1)
