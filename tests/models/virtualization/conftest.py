import pytest
from virtual_place import Place


@pytest.fixture
def place(request):
    place = Place(request.node.name)
    yield place
    place.cluster.close()
