import pytest
from machine_cluster import MachineCluster


@pytest.fixture
def machine_cluster(request):
    machine_cluster = MachineCluster(request.node.name)
    yield machine_cluster
    machine_cluster.cluster.close()
