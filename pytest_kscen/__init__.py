"""A pytest plugin that tests Kubernetes: chaos, scenarios and workflows.

Public names are those in `__all__` of this module and of pytest_kscen.admission, .chaos,
.clusters, .report, .resources, .scenario, .scheduler, .storage and .workflow.probes; docs/api.md
lists them. Everything else is private and may change in any release. Names are imported when they
are first used, so that importing this package is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.lazy import lazy_names

if TYPE_CHECKING:
    from pytest_kscen.clusters.cluster import Cluster
    from pytest_kscen.judge.guarantees.checks import GuaranteeResult
    from pytest_kscen.judge.guarantees.declaration import (
        Guarantee,
        always,
        eventually,
        sometimes,
    )
    from pytest_kscen.judge.incidents import IncidentRecord
    from pytest_kscen.judge.outcome import Outcome
    from pytest_kscen.judge.volumes import VolumeRecord
    from pytest_kscen.run.context import Run
    from pytest_kscen.run.manual import ActiveFault, VolumeHandle
    from pytest_kscen.run.plan import PlanWarning
    from pytest_kscen.run.preflight import ForeignVolumesWarning
    from pytest_kscen.run.runner import ScenarioRunner
    from pytest_kscen.run.scenarios import ScenarioHandle
    from pytest_kscen.run.workflows import WorkflowHandle
    from pytest_kscen.workflow.files import WorkflowWarning

__all__ = [
    "ActiveFault",
    "Cluster",
    "ForeignVolumesWarning",
    "Guarantee",
    "GuaranteeResult",
    "IncidentRecord",
    "Outcome",
    "PlanWarning",
    "Run",
    "ScenarioHandle",
    "ScenarioRunner",
    "VolumeHandle",
    "VolumeRecord",
    "WorkflowHandle",
    "WorkflowWarning",
    "always",
    "eventually",
    "sometimes",
]

__getattr__ = lazy_names(
    __name__,
    {
        "pytest_kscen.clusters.cluster": ("Cluster",),
        "pytest_kscen.judge.incidents": ("IncidentRecord",),
        "pytest_kscen.judge.guarantees.checks": ("GuaranteeResult",),
        "pytest_kscen.judge.guarantees.declaration": (
            "Guarantee",
            "always",
            "eventually",
            "sometimes",
        ),
        "pytest_kscen.judge.outcome": ("Outcome",),
        "pytest_kscen.judge.volumes": ("VolumeRecord",),
        "pytest_kscen.run.context": ("Run",),
        "pytest_kscen.run.manual": ("ActiveFault", "VolumeHandle"),
        "pytest_kscen.run.plan": ("PlanWarning",),
        "pytest_kscen.run.preflight": ("ForeignVolumesWarning",),
        "pytest_kscen.run.runner": ("ScenarioRunner",),
        "pytest_kscen.run.scenarios": ("ScenarioHandle",),
        "pytest_kscen.run.workflows": ("WorkflowHandle",),
        "pytest_kscen.workflow.files": ("WorkflowWarning",),
    },
)
