import pytest
from hall import Hall

from pytest_kscen.chance import Chance


@pytest.fixture
def halls(api, runner):
    """A hall whose scheduler gets these options."""
    return lambda **options: Hall(api, runner, Chance("hall"), options)


@pytest.fixture
def hall(api, runner):
    return Hall(api, runner, Chance("hall"))
