import pytest
from mesh_cluster import MeshCluster


@pytest.fixture
def mesh_cluster(request):
    mesh_cluster = MeshCluster(request.node.name)
    yield mesh_cluster
    mesh_cluster.cluster.close()
