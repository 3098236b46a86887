"""Vocabulary of the Scenario resource: phases, and which controllers may work during a scenario.

Shared by the scenario controller, its participants and checks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.objects.resources import Resource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.resources import Obj

GROUP = "simulation.kube-scheduler-simulator.x-k8s.io"
SCENARIOS = Resource(GROUP, "v1alpha1", "scenarios", "Scenario", namespaced=False)

PENDING, RUNNING, PAUSED = "Pending", "Running", "Paused"
SUCCEEDED, FAILED, UNKNOWN = "Succeeded", "Failed", "Unknown"
OVER = (SUCCEEDED, FAILED)
ON = (RUNNING, PAUSED)

OPERATING, OPERATING_COMPLETED = "Operating", "OperatingCompleted"
CONTROLLER_RUNNING, CONTROLLER_PAUSED, CONTROLLER_COMPLETED = (
    "ControllerRunning",
    "ControllerPaused",
    "ControllerCompleted",
)
STEP_COMPLETED = "Finished"

EVERY = "*"
RESULTS = "kube-scheduler-simulator.sigs.k8s.io/"
HISTORY = "result-history"
"""Prefix and name of a pod's annotations with scheduling results."""


def phase_of(scenario: Obj) -> str:
    return str((scenario.get("status") or {}).get("phase") or "")


def simulated(scenario: Obj) -> list[str]:
    return _names(scenario, "simulationControllers", "enabled")


def disabled(scenario: Obj) -> list[str]:
    """Return the names of the controllers that are paused during the scenario; `*` means all."""
    return _names(scenario, "presimulationControllers", "disabled")


def may_work(scenarios: Iterable[Obj], controller: str) -> bool:
    """Return True if a controller may work now, by the active scenario, if there is one."""
    scenario = on(scenarios)
    if scenario and controller in simulated(scenario):
        step = scenario["status"].get("stepStatus") or {}
        return (
            step.get("phase") == CONTROLLER_RUNNING
            and step.get("runningSimulationController") == controller
        )
    return scenario is None or not is_named(scenario, controller)


def on(scenarios: Iterable[Obj]) -> Obj | None:
    """Return the scenario that is running or paused and has cleared the cluster, or None. At most
    one is on at a time.
    """
    for each in scenarios:
        if phase_of(each) in ON:
            step = (each["status"].get("stepStatus") or {}).get("step") or {}
            # until the cluster has been cleared, in major step 0, all controllers are needed
            if step.get("major"):
                return each
    return None


def is_named(scenario: Obj, controller: str) -> bool:
    return bool({EVERY, controller} & {*simulated(scenario), *disabled(scenario)})


def _names(scenario: Obj, kind: str, which: str) -> list[str]:
    chosen = ((scenario.get("spec") or {}).get("controllers") or {}).get(kind) or {}
    return [each["name"] for each in chosen.get(which) or () if "name" in each]


def results_of(obj: Obj | None) -> dict[str, str]:
    annotations = ((obj or {}).get("metadata") or {}).get("annotations") or {}
    return {
        key.removeprefix(RESULTS): value
        for key, value in annotations.items()
        if key.startswith(RESULTS)
    }


def parsed(result: str) -> Any:
    try:
        return orjson.loads(result)
    except orjson.JSONDecodeError:
        return result
