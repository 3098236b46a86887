"""Run KEP-140 scenarios step by step. Must not import the simulation, the clusters, or pytest.

files, models, operation_ids, validation, expectations   a Scenario as written
controller, execution, progress, operations, cluster_setup   running it
waiting, builtin_waiters, participants   when controllers have finished a step
writes, webhooks, gate   observing and holding other controllers
recording, analysis/   a cluster as a Scenario; the results of one
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
MODULES = {
    "Comparison": "pytest_kscen.scenario.analysis.comparison",
    "ControllerWaiter": "pytest_kscen.scenario.waiting",
    "Result": "pytest_kscen.scenario.analysis.result",
    "SchedulerWaiter": "pytest_kscen.scenario.builtin_waiters",
    "Waiter": "pytest_kscen.scenario.waiting",
    "attempts_of": "pytest_kscen.scenario.analysis.pods",
    "check_scenario_step_phase": "pytest_kscen.scenario.gate",
    "compare": "pytest_kscen.scenario.analysis.comparison",
}


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(MODULES[name]), name)
