"""volume-checker: watches one volume's health and notes each change of each condition, which begin as True."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Informer
from pytest_kscen.objects.conditions import condition, is_true
from pytest_kscen.objects.storage import HEALTH, REPLICATED_VOLUMES

if TYPE_CHECKING:
    from typing import Any

    from pytest_kscen.kube.actor import Actor, Stage
    from pytest_kscen.objects.resources import Obj

logger = logging.getLogger("pytest_kscen.actors")


def is_ready(volume: Obj | None) -> bool:
    return all(is_true(volume, name) for name in HEALTH)


async def check(stage: Stage, volume: str) -> None:
    """Lives until it is cancelled."""
    actor = stage.actor(f"volume-checker/{volume}")
    actor.note("checker-started", volume=volume, conditions=list(HEALTH))
    seen = dict.fromkeys(HEALTH, "True")
    informer = Informer(actor.api, actor.clock, REPLICATED_VOLUMES, fields=f"metadata.name={volume}")
    informer.on_change(lambda new, _: _compare(actor, volume, new, seen))
    try:
        await informer.run()
    finally:
        actor.note("checker-stopped", volume=volume, conditions=dict(seen))


def _compare(actor: Actor, volume: str, obj: Obj | None, seen: dict[str, str]) -> None:
    for name, expected in seen.items():
        found: Any = condition(obj, name)
        if found is None or found["status"] == expected:
            continue
        seen[name] = found["status"]
        particulars = {"reason": found.get("reason", ""), "details": found.get("message", "")}
        actor.note("condition-changed", volume=volume, condition=name, expected=expected, observed=found["status"], **particulars)
        logger.warning(
            "%s: %s is %s, expected %s: %s",
            volume,
            name,
            found["status"],
            expected,
            found.get("reason", ""),
            extra={"volume": volume, "condition": name, "expected": expected, "observed": found["status"], **particulars},
        )
