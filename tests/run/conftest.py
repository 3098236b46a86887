"""Fixtures for runs by hand."""

from __future__ import annotations

import pytest

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner


@pytest.fixture
def cluster():
    cluster = EmbeddedCluster("by hand")
    yield cluster
    cluster.close()


@pytest.fixture
def runner_of(cluster):
    made = []

    def make(plan=None, **more):
        made.append(ScenarioRunner(cluster, plan or Plan(), parent=cluster.parent, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()
