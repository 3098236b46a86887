"""Run KEP-140 scenarios step by step. Must not import the simulation, the clusters, or pytest.

files, models, operation_ids, validation, expectations   a Scenario as written
controller, execution, progress, operations, cluster_setup   running it
waiting, builtin_waiters, participants   when controllers have finished a step
writes, webhooks, gate   observing and holding other controllers
recording, analysis/   a cluster as a Scenario; the results of one
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.lazy import lazy_names

if TYPE_CHECKING:
    from pytest_kscen.scenario.analysis.comparison import Comparison, compare
    from pytest_kscen.scenario.analysis.pods import attempts_of
    from pytest_kscen.scenario.analysis.result import Result
    from pytest_kscen.scenario.builtin_waiters import SchedulerWaiter
    from pytest_kscen.scenario.gate import check_scenario_step_phase
    from pytest_kscen.scenario.waiting import ControllerWaiter, Waiter

__all__ = [
    "Comparison",
    "ControllerWaiter",
    "Result",
    "SchedulerWaiter",
    "Waiter",
    "attempts_of",
    "check_scenario_step_phase",
    "compare",
]

__getattr__ = lazy_names(
    __name__,
    {
        "pytest_kscen.scenario.analysis.comparison": ("Comparison", "compare"),
        "pytest_kscen.scenario.analysis.pods": ("attempts_of",),
        "pytest_kscen.scenario.analysis.result": ("Result",),
        "pytest_kscen.scenario.builtin_waiters": ("SchedulerWaiter",),
        "pytest_kscen.scenario.gate": ("check_scenario_step_phase",),
        "pytest_kscen.scenario.waiting": ("ControllerWaiter", "Waiter"),
    },
)
