import pytest
from hall import Hall
from plugin_rig import Rig

from pytest_kscen.chance import Chance


@pytest.fixture
def halls(api, runner):
    """A hall whose scheduler gets these options."""
    return lambda **options: Hall(api, runner, Chance("hall"), options)


@pytest.fixture
def hall(api, runner):
    return Hall(api, runner, Chance("hall"))


@pytest.fixture(params=[64, 1], ids=["one by one", "table"])
def rig(api, runner, request):
    return Rig(api, runner, large=request.param)
