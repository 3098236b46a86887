"""Prepare a cluster: install the Scenario CustomResourceDefinition, and delete what was there
before a scenario starts.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import AlreadyExists, ApiError, MethodNotAllowed, NotFound
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS
from pytest_kscen.objects.scenarios import GROUP, SCENARIOS
from pytest_kscen.scenario.models import Model, schema_of

if TYPE_CHECKING:
    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj, Resource


INSTALL_TIMEOUT = 60.0
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
    names = {
        "plural": SCENARIOS.plural,
        "singular": "scenario",
        "kind": SCENARIOS.kind,
        "listKind": "ScenarioList",
    }
    version = {
        "name": SCENARIOS.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema_of(Model)},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": name, "type": type_, "jsonPath": path}
            for name, (type_, path) in COLUMNS.items()
        ],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": SCENARIOS.qualified},
        "spec": {
            "group": SCENARIOS.group,
            "scope": "Cluster",
            "names": names,
            "versions": [version],
        },
    }


async def install(api: Api, clock: Clock) -> None:
    """Returns when Scenarios are served. One that is there already stays."""
    with contextlib.suppress(AlreadyExists):
        await api.create(CUSTOM_RESOURCE_DEFINITIONS, definition())
    await wait_for(
        *(api, clock, CUSTOM_RESOURCE_DEFINITIONS, SCENARIOS.qualified),
        condition=lambda crd: is_true(crd, "Established"),
        timeout=INSTALL_TIMEOUT,
    )


# What was there before a scenario is deleted at its start, so that it cannot shape the result.
# Spared are definitions, Scenarios, the system's namespaces, and what every cluster is born
# with.


CLEAR_TIMEOUT = 300.0
LOOK_AGAIN = 0.5
SYSTEM = ("kube-system", "kube-public", "kube-node-lease")
BORN_NAMESPACES = (*SYSTEM, "default")
SPARED_GROUPS = (
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    GROUP,
)
SPARED_KINDS = (
    "Event",
    "Endpoints",
    "ComponentStatus",
    "ControllerRevision",
    "ServiceCIDR",
    "IPAddress",
    "CSINode",
)
BORN = {
    "Service": ("kubernetes",),
    "ServiceAccount": ("default",),
    "ConfigMap": ("kube-root-ca.crt",),
    "PriorityClass": ("system-cluster-critical", "system-node-critical"),
}
BORN_LABELS = ("kubernetes.io/bootstrapping", f"{GROUP}/webhook")
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


class NotClearedError(Exception):
    """Something would not go."""


def is_spared(resource: Resource, obj: Obj) -> bool:
    metadata = obj["metadata"]
    if (
        resource.group in SPARED_GROUPS
        or resource.kind in SPARED_KINDS
        or metadata.get("namespace") in SYSTEM
    ):
        return True
    if resource == NAMESPACES:
        return metadata["name"] in BORN_NAMESPACES
    born = any(each in (metadata.get("labels") or {}) for each in BORN_LABELS) or DEFAULT_CLASS in (
        metadata.get("annotations") or {}
    )
    return (
        born
        or metadata["name"] in BORN.get(resource.kind, ())
        or metadata["name"].startswith("system:")
    )


async def clear(api: Api, clock: Clock) -> None:
    """Until nothing is there any more."""
    end = clock.now() + CLEAR_TIMEOUT
    while left := await _delete_all(api):
        if clock.now() >= end:
            raise NotClearedError(
                f"this is still there {CLEAR_TIMEOUT:g} s after its deletion: {', '.join(left[:5])}"
            )
        await clock.sleep(LOOK_AGAIN)


async def _delete_all(api: Api) -> list[str]:
    """Delete what is not spared and is not going yet; the names of all that."""
    found: list[str] = []
    for resource in await api.resources():
        if resource.group in SPARED_GROUPS or resource.kind in SPARED_KINDS:
            continue
        try:
            items = (await api.list(resource)).items
        except (MethodNotAllowed, NotFound):
            continue
        for obj in items:
            if not is_spared(resource, obj):
                found.append(f"{resource.qualified} {obj['metadata']['name']}")
                if not obj["metadata"].get("deletionTimestamp"):
                    await _delete(api, resource, obj)
    return found


async def _delete(api: Api, resource: Resource, obj: Obj) -> None:
    """Delete an object; pods without a grace period."""
    metadata = obj["metadata"]
    options = {"grace_period": 0} if resource == PODS else {"propagation": "Background"}
    try:
        await api.delete(resource, metadata["name"], metadata.get("namespace", ""), **options)
    except (NotFound, MethodNotAllowed):
        return  # another client was quicker, or it cannot be deleted
    except ApiError as error:
        raise NotClearedError(
            f"{resource.qualified} {metadata['name']} could not be deleted: {error.message}"
        ) from error
