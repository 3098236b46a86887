import pytest
from schedule_cluster import ScheduleCluster


@pytest.fixture
def schedule_cluster(request):
    schedule_cluster = ScheduleCluster(request.node.name)
    yield schedule_cluster
    schedule_cluster.close()
