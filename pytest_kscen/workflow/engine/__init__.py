"""An engine: all that drives workflows on a cluster, beside each other in one task, until it is
cancelled.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kscen.workflow.engine.manager import CONCURRENCY, WorkflowManager
from pytest_kscen.workflow.schedules import Schedules
from pytest_kscen.workflow.status_checks import StatusChecks

if TYPE_CHECKING:
    from typing import Never

    from pytest_kscen.kube.actor import RunContext
    from pytest_kscen.objects.chaos_mesh import EngineResources

ENGINE = "workflow-engine"


async def drive(
    context: RunContext,
    family: EngineResources,
    *,
    concurrency: int = CONCURRENCY,
    per_second: float | None = None,
) -> Never:
    """Workflows, Schedules and StatusChecks of one family."""
    async with asyncio.TaskGroup() as group:
        manager = WorkflowManager(
            context.actor(ENGINE), family, concurrency=concurrency, per_second=per_second
        )
        group.create_task(manager.run(), name=ENGINE)
        group.create_task(
            Schedules(context.actor("workflow-schedules"), family).run(), name="schedules"
        )
        group.create_task(
            StatusChecks(context.actor("workflow-status-checks"), family).run(),
            name="status checks",
        )
    raise AssertionError
