"""Parent of a simulated cluster: three nodes, one virtual machine per machine of the cluster, and
the actors that migrate them.

Used by the embedded and the controlplane backend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.chance import Chance
from pytest_kscen.embedded.kubelet.machines import FIRST_PARENT_HOST
from pytest_kscen.embedded.kubelet.nodes import Site
from pytest_kscen.kube.actor import ParentCluster
from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.models.virtualization.assembly import actors, install_definitions, make_machines
from pytest_kscen.models.virtualization.objects import TAINT
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.resources import NODES
from pytest_kscen.objects.virtualization import PARENT_ROLE, ROLE_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.clock import Clock, Runner
    from pytest_kscen.kube.api import Api

HOST_NAMES = ("parent-1", "parent-2", "parent-3")
DEFAULT_NAMESPACE = "vms"
NODES_READY_TIMEOUT = 60.0  # seconds within which the parent's nodes must be ready


def parent_chance(seed: str) -> Chance:
    """Return the parent's chance, separate from the nested cluster's so that opening a parent
    changes none of its draws.
    """
    return Chance(f"{seed}/parent")


def make_parent_site(clock: Clock, chance: Chance, nested: Site) -> Site:
    """Return the machines of a parent with its own API server."""
    site = Site.of(clock, chance, hosts=FIRST_PARENT_HOST)
    _add_machines(site, len(_guest_names(nested)))
    return site


def _add_machines(site: Site, guest_count: int) -> None:
    """Add the machines of the parent's nodes. Each has room for all guests, with capacity that
    still depends on their number.
    """
    capacity = {
        "cpu": f"{32 + 4 * guest_count}",
        "memory": f"{64 + 8 * guest_count}Gi",
        "pods": f"{110 + guest_count}",
    }
    for name in HOST_NAMES:
        site.machines.add(name, labels={ROLE_LABEL: PARENT_ROLE}, capacity=capacity)


def _guest_names(nested: Site) -> list[str]:
    return [
        machine.name for machine in nested.machines if machine.labels.get(ROLE_LABEL) != PARENT_ROLE
    ]


async def add_parent_nodes(api: Api, clock: Clock, site: Site) -> None:
    """Add the parent's nodes to the nested cluster itself, tainted against its pods, and wait until
    they are ready.
    """
    _add_machines(site, len(_guest_names(site)))
    for name in HOST_NAMES:
        metadata = {"name": name, "labels": {ROLE_LABEL: PARENT_ROLE}}
        await api.create(
            NODES,
            {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": [TAINT]}},
        )
    for name in HOST_NAMES:
        await wait_for(
            api,
            clock,
            NODES,
            name,
            condition=lambda node: (
                is_true(node, "Ready") and (node or {})["spec"].get("taints") == [TAINT]
            ),
            timeout=NODES_READY_TIMEOUT,
        )


def virtualize(
    runner: Runner,
    api_for: Callable[[str], Api],
    chance: Chance,
    *,
    host: Site,
    nested: Site,
    namespace: str,
) -> ParentCluster:
    """Make the nested site's machines virtual machines on a host whose nodes exist. The machines
    keep running meanwhile.
    """
    api, clock = api_for("virtualization-installer"), runner.clock
    runner.call(install_definitions(api, clock))
    for name, life in actors(api_for, clock, chance, host=host, nested=nested, namespace=namespace):
        runner.start(life, name)
    runner.call(make_machines(api, clock, namespace, _guest_names(nested)))
    return ParentCluster(api_for, namespace, owned=True)
