"""Checks before a run changes anything: required objects and nodes, and volumes of other runs.

Read only.
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kscen.chaos.profiles import PROFILES
from pytest_kscen.kube.actor import RUN_LABEL
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS, NODES, PODS
from pytest_kscen.objects.storage import (
    HEALTH_SOURCES,
    NODE_LABEL,
    REPLICATED_STORAGE_CLASSES,
    REPLICATED_VOLUME_ATTACHMENTS,
    REPLICATED_VOLUME_REPLICAS,
    REPLICATED_VOLUMES,
    copies,
)
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINES

if TYPE_CHECKING:
    from pytest_kscen.chaos.profile import Profile
    from pytest_kscen.kube.actor import ParentCluster, RunContext
    from pytest_kscen.kube.api import Api
    from pytest_kscen.megatest.churn import Churn
    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.run.plan import Plan


STORAGE = (
    REPLICATED_VOLUMES,
    REPLICATED_VOLUME_REPLICAS,
    REPLICATED_VOLUME_ATTACHMENTS,
    REPLICATED_STORAGE_CLASSES,
)
NO_STORAGE = "install sds-replicated-volume there, or test another cluster with --kubeconfig"
OPTIONAL = ""  # absent
NO_NODES = "it is no Kubernetes cluster"
NOT_SERVED = "install what serves it, or leave the chaos profile that creates it out"
NO_VIRTUALIZATION = "is --parent-kubeconfig that of the cluster that runs the virtual machines?"

LAYOUT = "effectiveLayout"  # in a volume's status, once the storage publishes it
POD_SPECIFIC_LABELS = (
    "-hash",
    "-generation",
    "pod-name",
    "pod-index",
    "job-completion-index",
    "controller-uid",
)  # labels of no use to others


class PreflightRefused(Exception):
    """Report that a run cannot follow its plan. The message has a line for each problem."""


@dataclass(slots=True)
class _CheckedCluster:
    """Cluster that is checked with the rights of this run's user, and the complaints so far."""

    api: Api
    where: str
    complaints: list[str] = field(default_factory=list)

    async def list(
        self, resource: Resource, if_absent: str, namespace: str = "", **options: Any
    ) -> list[Obj] | None:
        """Return the objects, or None after a complaint. An absent resource is no complaint if
        `if_absent` is empty.
        """
        try:
            return (await self.api.list(resource, namespace, **options)).items
        except NotFound:
            if if_absent:
                self.complaints.append(f"{self.where} has no {resource.qualified}: {if_absent}")
        except ApiError as error:
            self.complaints.append(
                f"{self.where} does not allow listing {resource.qualified}: {error.message}"
            )
        return None


async def preflight(context: RunContext, plan: Plan) -> None:
    """Check the plan; raise PreflightRefused with all problems."""
    tested = _CheckedCluster(context.actor("preflight").api, "the tested cluster")
    complaints = tested.complaints
    if plan.churn and not await _lacks_replicated_volumes(tested, plan.health):
        await _storage(tested, plan.churn, plan.health)
    for profile in plan.profiles:
        for namespace, label in profile.required_pods:
            if await tested.list(PODS, NO_NODES, namespace, labels=label, limit=1) == []:
                complaints.append(
                    f"{profile.name}: no pod matches {label} in the namespace {namespace!r}: "
                    f"{await _pods_there(tested, namespace)}"
                )
    acting = [profile for profile in plan.chaos if profile.needs_machines()]
    if acting and context.parent is None:
        names = ", ".join(dict.fromkeys(profile.name for profile in acting))
        complaints.append(
            f"{names}: there is no parent cluster: give --parent-kubeconfig and --vm-namespace"
        )
    if context.parent:
        parent = _CheckedCluster(
            context.in_parent("preflight").api, "the parent cluster", complaints
        )
        await _created(parent, plan, context.parent, owned=context.parent.owned)
        if acting:
            await _machines(parent, tested, acting, context.parent)
    if plan.declared or context.parent:
        await _created(tested, plan, None, owned=context.owned)
    if complaints:
        raise PreflightRefused("\n".join(complaints))


async def _created(
    cluster: _CheckedCluster, plan: Plan, parent: ParentCluster | None, *, owned: bool
) -> None:
    """List resources that incidents create in the parent, or without one in the tested cluster.

    The cluster has to serve all resources of the plan's profiles. In a shared cluster, resources
    of other profiles must be listable if they are served: earlier runs may have left objects.
    """
    needed = {each for profile in plan.profiles for each in profile.creates}
    not_served = NOT_SERVED if parent is None else NO_VIRTUALIZATION
    for each in dict.fromkeys(each for profile in PROFILES.values() for each in profile.creates):
        if each.in_parent is (parent is not None) and (each in needed or not owned):
            await cluster.list(
                each.resource,
                not_served if each in needed else OPTIONAL,
                each.namespace if parent is None else parent.namespace,
                limit=1,
            )


async def _lacks_replicated_volumes(tested: _CheckedCluster, health: str) -> bool:
    """Return True, with one complaint, on storage of a package that has no ReplicatedVolumes."""
    if HEALTH_SOURCES.is_built_in(health):
        return False
    try:
        await tested.api.list(REPLICATED_VOLUMES, limit=1)
    except NotFound:
        tested.complaints.append(
            f"volume_churn needs ReplicatedVolumes; the storage model {health!r} has none: drop "
            f"volume_churn or --kscen-volume-health={health}"
        )
        return True
    except ApiError:
        pass  # `_storage` reports it
    return False


async def _storage(tested: _CheckedCluster, churn: Churn, health: str) -> None:
    found = [
        await tested.list(
            resource, NO_STORAGE, limit=0 if resource is REPLICATED_STORAGE_CLASSES else 1
        )
        for resource in STORAGE
    ]
    classes = found[-1]
    if classes is not None:
        tested.complaints += _unknown_classes(
            churn.storage_classes, sorted(one["metadata"]["name"] for one in classes)
        )
    if found[0] is not None:
        tested.complaints += await _another_generation(tested, health)
    nodes = await tested.list(NODES, NO_NODES, labels=NODE_LABEL)
    if nodes == []:
        tested.complaints.append(
            f"no node has the storage's label {NODE_LABEL}: label the nodes for volumes"
        )
    elif nodes and classes:
        there = _counted([node["metadata"]["name"] for node in nodes])
        tested.complaints += [
            f"the storage class {one['metadata']['name']} has its volumes' data on "
            f"{copies(one)} nodes, and the storage has {there}: give the cluster more, or choose "
            "other classes with --storage-classes or the marker"
            for one in classes
            if one["metadata"]["name"] in churn.storage_classes and copies(one) > len(nodes)
        ]


async def _pods_there(tested: _CheckedCluster, namespace: str) -> str:
    try:
        if pods := (await tested.api.list(PODS, namespace)).items:
            labels = {
                item
                for pod in pods
                for item in (pod["metadata"].get("labels") or {}).items()
                if not item[0].endswith(POD_SPECIFIC_LABELS)
            }
            return (
                "the pods there have "
                f"{', '.join(f'{key}={value}' for key, value in sorted(labels)) or 'no labels'}"
            )
        elsewhere = {pod["metadata"]["namespace"] for pod in (await tested.api.list(PODS)).items}
        return (
            "the namespace has no pods; namespaces with pods: "
            f"{', '.join(sorted(elsewhere)) or 'none'}"
        )
    except ApiError as error:
        return f"its pods cannot be listed: {error.message}"


def _unknown_classes(wanted: tuple[str, ...], there: list[str]) -> list[str]:
    unknown = [name for name in wanted if name not in there]
    if not unknown:
        return []
    what = (
        f"is no storage class {unknown[0]}"
        if len(unknown) == 1
        else f"are no storage classes {', '.join(unknown)}"
    )
    return [
        (
            f"there {what}; existing ones: {', '.join(there) or 'none'}: choose from them "
            "with --storage-classes or the marker"
        )
    ]


async def _another_generation(tested: _CheckedCluster, health: str) -> list[str]:
    """Return a complaint if the storage publishes health in another form than `health` reads.

    Empty if the definition has no schema of the status, or cannot be read.
    """
    try:
        definition = await tested.api.get(CUSTOM_RESOURCE_DEFINITIONS, REPLICATED_VOLUMES.qualified)
    except ApiError:
        return []
    versions = {each["name"]: each for each in definition["spec"]["versions"]}
    schema = versions.get(REPLICATED_VOLUMES.version, {}).get("schema", {})
    properties = schema.get("openAPIV3Schema", {}).get("properties", {})
    status = properties.get("status", {}).get("properties", {})
    publishes = LAYOUT in status
    if not status or publishes is HEALTH_SOURCES[health].has_layout:
        return []
    fitting = " or ".join(
        each.name for each in HEALTH_SOURCES.values() if each.has_layout is publishes
    )
    return [
        (
            f"the storage there does not publish its volumes' health as {health!r}: give "
            f"--kscen-volume-health {fitting}"
        )
    ]


async def _machines(
    parent: _CheckedCluster, tested: _CheckedCluster, acting: list[Profile], named: ParentCluster
) -> None:
    namespace = named.namespace
    machines = await parent.list(VIRTUAL_MACHINES, NO_VIRTUALIZATION, namespace)
    nodes = await tested.list(NODES, NO_NODES, labels=NODE_LABEL)
    if machines is None or nodes is None:
        return
    names = [machine["metadata"]["name"] for machine in machines]
    names = [name for name in names if named.machines is None or name in named.machines]
    where = f"{_counted(names)} in the namespace {namespace} of the parent cluster"
    for profile in acting:
        parent.complaints += filter(None, [profile.missing_machines(len(names), where)])
    foreign_nodes = [
        node["metadata"]["name"] for node in nodes if node["metadata"]["name"] not in names
    ]
    if names and foreign_nodes:
        parent.complaints.append(
            f"no virtual machine in {namespace} is named as {', '.join(foreign_nodes)}: "
            "are the tested cluster's nodes the virtual machines of --vm-namespace?"
        )


def _counted(names: list[str]) -> str:
    return f"{len(names)} ({', '.join(names)})" if names else "none"


FOREIGN_VOLUMES = (
    "{count} volumes of other runs are on the tested cluster, and take capacity and time "
    "from this run's; "
    "if these runs are over: kubectl delete {kinds} -l '{label} in ({runs})'"
)
KINDS = f"{REPLICATED_VOLUME_ATTACHMENTS.plural},{REPLICATED_VOLUMES.plural}"


class ForeignVolumesWarning(UserWarning):
    """Warning of volumes of other runs on the cluster, which may change this run's result."""


async def warn_of_foreign_volumes(context: RunContext) -> None:
    """Warn of volumes of other runs, which use capacity and time and may still be needed.

    A user that may not list volumes gets no warning; preflight refuses the run if it needs them.
    """
    try:
        found = (await context.actor("run").api.list(REPLICATED_VOLUMES, labels=RUN_LABEL)).items
    except ApiError:
        return
    runs = Counter(one["metadata"]["labels"][RUN_LABEL] for one in found)
    if runs:
        said = FOREIGN_VOLUMES.format(
            count=len(found), kinds=KINDS, label=RUN_LABEL, runs=", ".join(runs)
        )
        warnings.warn(said, ForeignVolumesWarning, stacklevel=1)
