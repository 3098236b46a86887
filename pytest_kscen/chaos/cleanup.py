"""What chaos of earlier runs has left in both clusters goes before a run, and what is left of its own goes after it.

On clusters that are ours, all policies of the parent and all Jobs of the nested `default` namespace; on those that were
handed to us, only what carries our label or that of the Go megatest. A Job that added a rule of iptables names a node on
which the rule may have stayed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kscen.chaos.hands import TYPE, Hands, remove
from pytest_kscen.chaos.jobs import NAMESPACE
from pytest_kscen.chaos.scripts import MARK
from pytest_kscen.chaos.sweeping import sweep
from pytest_kscen.kube.actor import RUN_LABEL
from pytest_kscen.objects.cilium import CILIUM_NETWORK_POLICIES
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import JOBS, NODES
from pytest_kscen.objects.virtualization import FINISHED, VIRTUAL_MACHINE_OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kscen.kube.actor import Actor, Stage
    from pytest_kscen.objects.resources import Obj, Resource

NAME = "chaos-cleaner"
FAMILY = "chaos.megatest/"  # how the labels begin that the Go megatest has in common with us
COMMENT = re.compile(r'--comment "([^"]+)"|COMMENT="(?:/\* )?([^"*]+?)(?: \*/)?"')


async def clear_before(stage: Stage) -> None:
    """Nothing of an earlier run may pass for an effect of this one."""
    hands = Hands.of(stage, NAME)
    if hands.parent and stage.parent:
        everywhere = "" if stage.parent.owned else hands.namespace
        of_parent = _anything if stage.parent.owned else is_of_chaos
        await _clear(hands.parent, CILIUM_NETWORK_POLICIES, everywhere, of_parent)
        await _clear(hands.parent, VIRTUAL_MACHINE_OPERATIONS, hands.namespace, _is_finished)
    jobs = await _clear(hands.nested, JOBS, NAMESPACE, _anything if stage.owned else is_of_chaos)
    await _sweep(hands.nested, jobs)


async def clear_after(stage: Stage) -> None:
    """Whatever still carries this run's label, although each incident has undone its own."""
    hands = Hands.of(stage, NAME)

    def is_ours(obj: Obj) -> bool:
        return _labels(obj).get(RUN_LABEL) == stage.run_id

    if hands.parent:
        await _clear(hands.parent, CILIUM_NETWORK_POLICIES, hands.namespace, is_ours)
        await _clear(hands.parent, VIRTUAL_MACHINE_OPERATIONS, hands.namespace, is_ours)
    await _sweep(hands.nested, await _clear(hands.nested, JOBS, NAMESPACE, is_ours))


async def _clear(actor: Actor, resource: Resource, namespace: str, chosen: Callable[[Obj], bool]) -> list[Obj]:
    """What was there and is gone now; a cluster that does not know the resource has none."""
    try:
        listing = await actor.api.list(resource, namespace)
    except NotFound:
        return []
    doomed = [obj for obj in listing.items if chosen(obj)]
    for obj in doomed:
        async with actor.doing("clear away", resource=resource.qualified, name=obj["metadata"]["name"]):
            await remove(actor, resource, obj["metadata"]["name"], obj["metadata"].get("namespace", ""))
    return doomed


async def _sweep(actor: Actor, jobs: Iterable[Obj]) -> None:
    """Rules that these Jobs may have left on their nodes; a node that is not ready is named and left."""
    for number, (node, mark) in enumerate(marks(jobs)):
        try:
            await actor.api.get(NODES, node)
            labels = {TYPE: "sweep", **actor.labels}
            await sweep(actor, f"chaos-sweep-{actor.chance.suffix()}-{number}", node, mark, labels)
        except NotFound:
            continue
        except TimeoutError as error:
            actor.note("not-swept", node=node, mark=mark, error=str(error))


def marks(jobs: Iterable[Obj]) -> list[tuple[str, str]]:
    """The nodes on which such Jobs have worked, and the beginnings of the comments that their rules have."""
    found: dict[tuple[str, str], None] = {}
    for job in jobs:
        pod = job["spec"]["template"]["spec"]
        scripts = "\n".join(text for container in pod["containers"] for text in container.get("args") or ())
        for quoted, looked_for in COMMENT.findall(scripts) if pod.get("nodeName") and "iptables" in scripts else ():
            comment = quoted or looked_for
            found[pod["nodeName"], MARK if comment.startswith(MARK) else comment] = None
    return list(found)


def is_of_chaos(obj: Obj) -> bool:
    return any(label == RUN_LABEL or label.startswith(FAMILY) for label in _labels(obj))


def _is_finished(operation: Obj) -> bool:
    return is_of_chaos(operation) and (operation.get("status") or {}).get("phase") in FINISHED


def _anything(_: Obj) -> bool:
    return True


def _labels(obj: Obj) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}
