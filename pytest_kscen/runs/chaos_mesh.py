"""Simulated machines come with a simulated Chaos Mesh. On a cluster that was handed to us the real one acts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.chaos_mesh import KINDS
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS
from pytest_kscen.objects.workflows import OWN, SHIPPED

if TYPE_CHECKING:
    from pytest_kscen.clusters.cluster import Cluster
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.workflows import Family

SIMULATED = ("embedded", "controlplane")


def bring_chaos_mesh(cluster: Cluster) -> bool:
    """Once for each cluster, by whoever comes first: the definitions of chaos and of workflows, and who acts on them.

    Whether this was the first.
    """
    if cluster.backend not in SIMULATED or cluster.site.has_chaos_mesh:  # type: ignore[attr-defined]  # what simulated clusters have
        return False
    from pytest_kscen.simulation.chaos_mesh import actors, install

    runner, site = cluster.runner, cluster.site  # type: ignore[attr-defined]  # as above
    runner.call(install(cluster.api("chaos-mesh-installer"), runner.clock))
    for name, life in actors(cluster.api, runner.clock, cluster.chance, site):
        runner.start(life, name)
    site.has_chaos_mesh = True
    return True


def family_on(cluster: Cluster) -> Family:
    """In Chaos Mesh's group where that is free, else in our own; what an engine needs and lacks is installed."""
    from pytest_kscen.objects.chaos_definitions import cron_workflow_definition, engine_definitions
    from pytest_kscen.runs.workflow_admission import judge_workflows
    from pytest_kscen.simulation.chaos_mesh import install

    if bring_chaos_mesh(cluster):
        judge_workflows(cluster, SHIPPED)
    if cluster.backend in SIMULATED:
        return SHIPPED
    api, runner = cluster.api("workflow-installer"), cluster.runner
    family = OWN if runner.call(_is_theirs(api)) else SHIPPED
    runner.call(install(api, runner.clock, (*engine_definitions(family.group), cron_workflow_definition())))
    return family


def has_definitions(cluster: Cluster) -> bool:
    """Whether there is any kind of chaos that could be made."""

    async def look() -> bool:
        try:
            await cluster.api("workflow-installer").get(CUSTOM_RESOURCE_DEFINITIONS, KINDS["NetworkChaos"].resource.qualified)
        except NotFound:
            return False
        return True

    return cluster.runner.call(look())


async def _is_theirs(api: Api) -> bool:
    """Whether the cluster's Workflows are Chaos Mesh's own: they know of no phases."""
    try:
        definition = await api.get(CUSTOM_RESOURCE_DEFINITIONS, SHIPPED.workflows.qualified)
    except NotFound:
        return False
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return "phase" not in schema["properties"]["status"]["properties"]
