"""The CustomResourceDefinition of Scenario, made from the models, and how it gets into a cluster."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import AlreadyExists
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS
from pytest_kscen.objects.scenarios import SCENARIOS
from pytest_kscen.scenario.models import Model
from pytest_kscen.scenario.shape import schema_of

if TYPE_CHECKING:
    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj

PATIENCE = 60.0
COLUMNS = {
    "Phase": ("string", ".status.phase"),
    "Step": ("integer", ".status.stepStatus.step.major"),
    "Minor": ("integer", ".status.stepStatus.step.minor"),
    "Step phase": ("string", ".status.stepStatus.phase"),
    "Controller": ("string", ".status.stepStatus.runningSimulationController"),
    "Message": ("string", ".status.message"),
    "Age": ("date", ".metadata.creationTimestamp"),
}


def definition() -> Obj:
    names = {"plural": SCENARIOS.plural, "singular": "scenario", "kind": SCENARIOS.kind, "listKind": "ScenarioList"}
    version = {
        "name": SCENARIOS.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema_of(Model)},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": name, "type": type_, "jsonPath": path} for name, (type_, path) in COLUMNS.items()],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": SCENARIOS.qualified},
        "spec": {"group": SCENARIOS.group, "scope": "Cluster", "names": names, "versions": [version]},
    }


async def install(api: Api, clock: Clock) -> None:
    """Returns when Scenarios are served. One that is there already stays."""
    with contextlib.suppress(AlreadyExists):
        await api.create(CUSTOM_RESOURCE_DEFINITIONS, definition())
    await wait_for(
        *(api, clock, CUSTOM_RESOURCE_DEFINITIONS, SCENARIOS.qualified),
        condition=lambda crd: is_true(crd, "Established"),
        timeout=PATIENCE,
    )
