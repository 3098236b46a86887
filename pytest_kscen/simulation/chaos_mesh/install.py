"""Installing what Chaos Mesh and workflows need on a cluster: the definitions, as far as it lacks them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.objects.chaos_definitions import chaos_definitions, cron_workflow_definition, engine_definitions
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import AlreadyExists
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj

PATIENCE = 120.0


async def install(api: Api, clock: Clock, definitions: Iterable[Obj] = ()) -> None:
    """Returns when objects of these kinds can be made; what is there already stays as it is."""
    wanted = tuple(definitions) or (*chaos_definitions(), *engine_definitions(), cron_workflow_definition())
    for definition in wanted:
        try:
            await api.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        except AlreadyExists:
            """Somebody's own, or of an earlier run."""
    for definition in wanted:
        name = definition["metadata"]["name"]
        await wait_for(api, clock, CUSTOM_RESOURCE_DEFINITIONS, name, condition=_established, timeout=PATIENCE)


def _established(definition: Obj | None) -> bool:
    return is_true(definition, "Established")
