"""What the tests of the engine are played on stands beside this, where those below find it."""

from __future__ import annotations

import pytest
from workflow_cluster import WorkflowCluster


@pytest.fixture(scope="module")
def workflow_cluster():
    workflow_cluster = WorkflowCluster()
    yield workflow_cluster
    workflow_cluster.close()
