"""Engine of workflows: every controller that drives them, run side by side until cancelled.

Called by `run.workflow_setup` (beside a test) and `commands.workflow_engine`. Nothing else of
`workflow` may import it; it imports tables, probes and validation.

  manager       finds workflows in the API, and passes their events to the processor
  processor     processes their events; transitions carries out the cell of a state table
  trees, templates      a running workflow in memory
  repository, statuses, pending_writes   the same in the API
  actors, node_probes, cleanup, triggers, reporting   what cells act on and events come from
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kscen.workflow.engine.manager import CONCURRENCY, WorkflowManager
from pytest_kscen.workflow.schedules import ScheduleController
from pytest_kscen.workflow.status_checks import StatusCheckController

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
    """Run the workflow, Schedule and StatusCheck controllers of one API group until cancelled.

    `concurrency` limits the workflows that are processed at a time; `per_second` limits events.
    """
    async with asyncio.TaskGroup() as group:
        manager = WorkflowManager(
            context.actor(ENGINE), family, concurrency=concurrency, per_second=per_second
        )
        group.create_task(manager.run(), name=ENGINE)
        group.create_task(
            ScheduleController(context.actor("workflow-schedules"), family).run(), name="schedules"
        )
        group.create_task(
            StatusCheckController(context.actor("workflow-status-checks"), family).run(),
            name="status checks",
        )
    raise AssertionError
