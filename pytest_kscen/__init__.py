"""A pytest plugin that tests Kubernetes: chaos, scenarios and workflows.

Public names are those in `__all__` of this module and of pytest_kscen.admission, .chaos,
.clusters, .report, .resources, .scenario, .scheduler, .storage and .workflow.probes; docs/api.md
lists them. Everything else is private and may change in any release. Names are imported when they
are first used, so that importing this package is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_kscen.clusters.cluster import Cluster
    from pytest_kscen.judge.outcome import Outcome
    from pytest_kscen.run.context import Run
    from pytest_kscen.run.plan import PlanWarning
    from pytest_kscen.run.runner import ScenarioRunner
    from pytest_kscen.run.scenarios import ScenarioHandle
    from pytest_kscen.run.workflows import WorkflowHandle
    from pytest_kscen.workflow.files import WorkflowWarning

__all__ = [
    "Cluster",
    "Outcome",
    "PlanWarning",
    "Run",
    "ScenarioHandle",
    "ScenarioRunner",
    "WorkflowHandle",
    "WorkflowWarning",
]
MODULES = {
    "Cluster": "pytest_kscen.clusters.cluster",
    "Outcome": "pytest_kscen.judge.outcome",
    "PlanWarning": "pytest_kscen.run.plan",
    "Run": "pytest_kscen.run.context",
    "ScenarioHandle": "pytest_kscen.run.scenarios",
    "ScenarioRunner": "pytest_kscen.run.runner",
    "WorkflowHandle": "pytest_kscen.run.workflows",
    "WorkflowWarning": "pytest_kscen.workflow.files",
}


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(MODULES[name]), name)
