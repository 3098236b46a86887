import pytest
from meshed import Mesh


@pytest.fixture
def mesh(request):
    mesh = Mesh(request.node.name)
    yield mesh
    mesh.cluster.close()
