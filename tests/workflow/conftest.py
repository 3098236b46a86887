"""Fixtures of the engine tests."""

from __future__ import annotations

import pytest
from workflow_cluster import WorkflowCluster


@pytest.fixture(scope="module")
def workflow_cluster():
    workflow_cluster = WorkflowCluster()
    yield workflow_cluster
    workflow_cluster.close()
