"""Cleanup of chaos in both clusters: leftovers of earlier runs before a run, its own after it.

Called by the run's life cycle. Deletes objects with a run's label or that of the Go megatest; on
clusters that we made, some resources wholly. A Job that changed iptables names a node on which a
rule may have stayed: such nodes are swept.
"""

from __future__ import annotations

import contextlib
import logging
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_kscen.chaos.clients import (
    MARK,
    TYPE,
    ClusterClients,
    create_sweep,
    delete_and_wait,
    finish_sweep,
)
from pytest_kscen.chaos.profiles import PROFILES
from pytest_kscen.kube.actor import RUN_LABEL
from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import JOBS, NODES
from pytest_kscen.objects.storage import NAMESPACE as STORAGE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable

    from pytest_kscen.chaos.profile import CreatedObjects, Profile
    from pytest_kscen.kube.actor import Actor, RunContext
    from pytest_kscen.objects.resources import Obj, Resource

NAME = "chaos-cleaner"
GO_MEGATEST_PREFIX = "chaos.megatest/"  # prefix of labels that the Go megatest sets, too
SYSTEM_NAMESPACES = ("kube-node-lease", "kube-public", "kube-system", STORAGE)
"""Namespaces whose Jobs belong to the cluster and are not deleted."""
BOOT_TIMEOUT = 150.0  # seconds for a machine that was just started again
BEFORE, AFTER = "clear away before the run", "clear chaos away"
COMMENT = re.compile(r'--comment "([^"]+)"|COMMENT="(?:/\* )?([^"*]+?)(?: \*/)?"')


async def clear_before(context: RunContext, *, everything: bool = True) -> None:
    """Delete objects and undo effects of chaos of earlier runs, in both clusters.

    With `everything`, on clusters that are ours, all objects of some resources are deleted:
    policies, and Jobs outside of the namespaces of the cluster itself and of the storage. A
    machine that an earlier run has stopped is started again.
    """
    clients = ClusterClients.of(context, NAME)
    if clients.parent and context.parent:
        everywhere = "" if context.parent.owned else clients.namespace
        for profile, created in _created(in_parent=True):
            takes_all = created.takes_all and everything and context.parent.owned
            await _clear(
                clients.parent,
                BEFORE,
                created.resource,
                everywhere if created.takes_all else clients.namespace,
                (lambda _: True) if takes_all else partial(_is_leftover, profile),
                undo=partial(profile.undo_leftover, clients),
            )
    for profile, created in _created(in_parent=False):
        takes_all = created.takes_all and everything and context.owned
        cleared = await _clear(
            clients.nested,
            BEFORE,
            created.resource,
            "" if context.owned else created.namespace,
            (lambda job: job["metadata"]["namespace"] not in SYSTEM_NAMESPACES)
            if takes_all
            else partial(_is_leftover, profile),
            undo=partial(profile.undo_leftover, clients),
        )
        if created.resource == JOBS:
            await _sweep_nodes(clients.nested, cleared)
    for profile in PROFILES.values():
        await profile.clear_leftovers(context, own=False)


async def clear_after(context: RunContext) -> None:
    """Delete objects that still have this run's label, and undo their effects. Incidents have
    undone themselves before, so usually none is found.
    """
    clients = ClusterClients.of(context, NAME)

    def is_ours(obj: Obj) -> bool:
        return _labels(obj).get(RUN_LABEL) == context.run_id

    async def clear(profile: type[Profile], created: CreatedObjects) -> None:
        cluster = clients.parent if created.in_parent else clients.nested
        if cluster is None:
            return
        namespace = clients.namespace if created.in_parent else created.namespace
        undo = partial(profile.undo_leftover, clients)
        cleared = await _clear(cluster, AFTER, created.resource, namespace, is_ours, undo=undo)
        if created.resource == JOBS:
            await _sweep_nodes(clients.nested, cleared)

    of_both = [*_created(in_parent=False), *_created(in_parent=True)]
    await _all(
        [
            *(clear(profile, created) for profile, created in of_both),
            *(profile.clear_leftovers(context, own=True) for profile in PROFILES.values()),
        ]
    )


def _created(*, in_parent: bool) -> list[tuple[type[Profile], CreatedObjects]]:
    return [
        (profile, created)
        for profile in PROFILES.values()
        for created in profile.creates
        if created.in_parent is in_parent
    ]


def _is_leftover(profile: type[Profile], obj: Obj) -> bool:
    return is_of_chaos(obj) and profile.is_leftover(obj)


async def _clear(
    actor: Actor,
    action: str,
    resource: Resource,
    namespace: str,
    selected: Callable[[Obj], bool],
    *,
    undo: Callable[[Obj], Awaitable[None]] | None = None,
) -> list[Obj]:
    """Delete the selected objects and return them; none if the resource is not served."""
    try:
        listing = await actor.api.list(resource, namespace)
    except NotFound:
        return []

    async def delete(obj: Obj) -> None:
        metadata = obj["metadata"]
        async with actor.doing(action, resource=resource.qualified, object=metadata["name"]):
            if undo:
                await undo(obj)
            await delete_and_wait(actor, resource, metadata["name"], metadata.get("namespace", ""))

    leftovers = [obj for obj in listing.items if selected(obj)]
    await _all([delete(obj) for obj in leftovers])
    return leftovers


async def _all(steps: Iterable[Coroutine[Any, Any, Any]]) -> None:
    """Run all steps, and raise the errors of those that failed after the last one."""
    refused: list[Exception] = []
    with contextlib.ExitStack() as pending:
        waiting = [pending.enter_context(contextlib.closing(step)) for step in steps]
        for step in waiting:
            try:
                await step
            except Exception as error:  # noqa: BLE001  # raised after the last step
                refused.append(error)
    if refused:
        raise (
            refused[0]
            if len(refused) == 1
            else ExceptionGroup("not everything could be cleared away", refused)
        )


async def _sweep_nodes(actor: Actor, jobs: Iterable[Obj]) -> None:
    """Delete the rules that these Jobs may have left on their nodes. Nodes on which rules may
    remain are reported.
    """
    await _all([_sweep_node(actor, number, *where) for number, where in enumerate(marks(jobs))])


async def _sweep_node(actor: Actor, number: int, node: str, mark: str) -> None:
    try:
        found = await actor.api.get(NODES, node)
        name = f"chaos-sweep-{actor.chance.suffix()}-{number}"
        await create_sweep(
            actor, name, node, mark, {TYPE: "sweep"}
        )  # not of this run: the next run finds a Job that failed
        if not _is_up(found):
            actor.log(
                logging.INFO,
                "waits until the node is ready, to sweep it",
                node=node,
                timeout=BOOT_TIMEOUT,
            )
            await wait_for(
                actor.api, actor.clock, NODES, node, condition=_is_up, timeout=BOOT_TIMEOUT
            )
        await finish_sweep(actor, name, node, mark)
    except NotFound:
        return
    except (ApiError, OSError) as error:
        why = str(error) or repr(error)
        actor.note("not-swept", nodes=[node], why=why)
        actor.log(logging.WARNING, "rules of iptables may be left", node=node, why=why)
        if not isinstance(error, TimeoutError):
            raise


def _is_up(node: Obj | None) -> bool:
    return node is None or is_true(node, "Ready")


def marks(jobs: Iterable[Obj]) -> list[tuple[str, str]]:
    """Return the nodes on which these Jobs have run, with the prefixes of their rules'
    comments.
    """
    found: dict[tuple[str, str], None] = {}
    for job in jobs:
        pod = job["spec"]["template"]["spec"]
        scripts = "\n".join(
            text for container in pod["containers"] for text in container.get("args") or ()
        )
        for quoted, unquoted in (
            COMMENT.findall(scripts) if pod.get("nodeName") and "iptables" in scripts else ()
        ):
            comment = quoted or unquoted
            found[pod["nodeName"], MARK if comment.startswith(MARK) else comment] = None
    return list(found)


def is_of_chaos(obj: Obj) -> bool:
    return any(label == RUN_LABEL or label.startswith(GO_MEGATEST_PREFIX) for label in _labels(obj))


def _labels(obj: Obj) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}
