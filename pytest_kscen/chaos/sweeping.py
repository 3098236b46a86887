"""Rules that an incident has left on a node are found and removed by a Job of their own.

It is there until it has said that it is done, a day at most: what it has not swept whoever comes later knows by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.chaos.hands import put, remove
from pytest_kscen.chaos.jobs import DAY, NAMESPACE, completes, job, log_of
from pytest_kscen.chaos.scripts import sweep_rules, swept_rules
from pytest_kscen.objects.resources import JOBS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.kube.actor import Actor

SWEEPING = 60.0  # seconds that a sweep may take, the image's pull included


async def sweep(actor: Actor, name: str, node: str, mark: str, labels: Mapping[str, str]) -> int:
    """How many rules with a comment that begins so were on the node, and are no more."""
    await order(actor, name, node, mark, labels)
    return await swept(actor, name, node, mark)


async def order(actor: Actor, name: str, node: str, mark: str, labels: Mapping[str, str]) -> None:
    """A node that is down sweeps when it is back."""
    await put(actor, JOBS, job(name, node, sweep_rules(mark), DAY, labels))


async def swept(actor: Actor, name: str, node: str, mark: str) -> int:
    """The same, once it was ordered."""
    done = await completes(actor, name, SWEEPING)
    found = swept_rules(await log_of(actor, name))
    if not done or found is None:
        raise TimeoutError(f"nobody can tell whether {node} is rid of the iptables rules with {mark!r} in their comment")
    await remove(actor, JOBS, name, NAMESPACE)
    if found:
        actor.note("rules-swept", node=node, mark=mark, rules=found)
    return found
