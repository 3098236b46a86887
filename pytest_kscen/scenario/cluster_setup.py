"""Prepare a cluster: install the Scenario CustomResourceDefinition, and delete existing objects
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
    """Install the Scenario definition, and return when Scenarios are served.

    A definition that exists already is kept as it is.
    """
    with contextlib.suppress(AlreadyExists):
        await api.create(CUSTOM_RESOURCE_DEFINITIONS, definition())
    await wait_for(
        *(api, clock, CUSTOM_RESOURCE_DEFINITIONS, SCENARIOS.qualified),
        condition=lambda crd: is_true(crd, "Established"),
        timeout=INSTALL_TIMEOUT,
    )


CLEAR_TIMEOUT = 300.0
POLL_INTERVAL = 0.5
SYSTEM = ("kube-system", "kube-public", "kube-node-lease")
INITIAL_NAMESPACES = (*SYSTEM, "default")
KEPT_GROUPS = (
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    GROUP,
)
KEPT_KINDS = (
    "Event",
    "Endpoints",
    "ComponentStatus",
    "ControllerRevision",
    "ServiceCIDR",
    "IPAddress",
    "CSINode",
)
INITIAL_NAMES = {
    "Service": ("kubernetes",),
    "ServiceAccount": ("default",),
    "ConfigMap": ("kube-root-ca.crt",),
    "PriorityClass": ("system-cluster-critical", "system-node-critical"),
}
INITIAL_LABELS = ("kubernetes.io/bootstrapping", f"{GROUP}/webhook")
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


class NotClearedError(Exception):
    """Object that could not be deleted, or still exists after `CLEAR_TIMEOUT`."""


def is_kept(resource: Resource, obj: Obj) -> bool:
    metadata = obj["metadata"]
    if (
        resource.group in KEPT_GROUPS
        or resource.kind in KEPT_KINDS
        or metadata.get("namespace") in SYSTEM
    ):
        return True
    if resource == NAMESPACES:
        return metadata["name"] in INITIAL_NAMESPACES
    is_initial = any(
        each in (metadata.get("labels") or {}) for each in INITIAL_LABELS
    ) or DEFAULT_CLASS in (metadata.get("annotations") or {})
    return (
        is_initial
        or metadata["name"] in INITIAL_NAMES.get(resource.kind, ())
        or metadata["name"].startswith("system:")
    )


async def clear(api: Api, clock: Clock) -> None:
    """Delete all objects that a new cluster would not have, and wait for their deletion.

    Raise NotClearedError after `CLEAR_TIMEOUT` seconds, with the names of remaining objects.
    """
    end = clock.now() + CLEAR_TIMEOUT
    while left := await _delete_all(api):
        if clock.now() >= end:
            raise NotClearedError(f"not deleted within {CLEAR_TIMEOUT:g} s: {', '.join(left[:5])}")
        await clock.sleep(POLL_INTERVAL)


async def _delete_all(api: Api) -> list[str]:
    """Delete all objects that are not kept; return the names of the objects that still exist.

    Objects that are being deleted already are only listed. Pods have no grace period.
    """
    found: list[str] = []
    for resource in await api.resources():
        if resource.group in KEPT_GROUPS or resource.kind in KEPT_KINDS:
            continue
        try:
            items = (await api.list(resource)).items
        except (MethodNotAllowed, NotFound):
            continue
        options = {"grace_period": 0} if resource == PODS else {"propagation": "Background"}
        for obj in items:
            if is_kept(resource, obj):
                continue
            metadata = obj["metadata"]
            found.append(f"{resource.qualified} {metadata['name']}")
            if metadata.get("deletionTimestamp"):
                continue
            try:
                await api.delete(
                    resource, metadata["name"], metadata.get("namespace", ""), **options
                )
            except (NotFound, MethodNotAllowed):
                """Another client deleted it first, or the kind cannot be deleted."""
            except ApiError as error:
                raise NotClearedError(
                    f"{resource.qualified} {metadata['name']} could not be deleted: {error.message}"
                ) from error
    return found
