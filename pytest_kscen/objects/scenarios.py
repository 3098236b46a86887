"""The Scenario resource as everybody names it who deals with one: its phases, and which
controllers it lets work right now.
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
"""What the names of a pod's annotations begin with that tell of scheduling."""


def phase_of(scenario: Obj) -> str:
    return str((scenario.get("status") or {}).get("phase") or "")


def simulated(scenario: Obj) -> list[str]:
    """The names of the controllers that are the simulation's targets, in their order."""
    return _names(scenario, "simulationControllers", "enabled")


def disabled(scenario: Obj) -> list[str]:
    """Those that shall do nothing while it is on; perhaps every one."""
    return _names(scenario, "presimulationControllers", "disabled")


def may_work(scenarios: Iterable[Obj], controller: str) -> bool:
    """Whether the scenario that is on, if there is one, lets this controller work."""
    scenario = on(scenarios)
    if scenario and controller in simulated(scenario):
        step = scenario["status"].get("stepStatus") or {}
        return (
            step.get("phase") == CONTROLLER_RUNNING
            and step.get("runningSimulationController") == controller
        )
    return scenario is None or not is_named(scenario, controller)


def on(scenarios: Iterable[Obj]) -> Obj | None:
    """The one that is on, and has begun."""
    return next((each for each in scenarios if phase_of(each) in ON and _has_begun(each)), None)


def is_named(scenario: Obj, controller: str) -> bool:
    """Whether this controller may have to stand still for it."""
    return bool({EVERY, controller} & {*simulated(scenario), *disabled(scenario)})


def _has_begun(scenario: Obj) -> bool:
    """Whether the cluster is cleared: for that everybody is needed, and all shall see it."""
    return bool(((scenario["status"].get("stepStatus") or {}).get("step") or {}).get("major"))


def _names(scenario: Obj, kind: str, which: str) -> list[str]:
    chosen = ((scenario.get("spec") or {}).get("controllers") or {}).get(kind) or {}
    return [each["name"] for each in chosen.get(which) or () if "name" in each]


def results_of(obj: Obj | None) -> dict[str, str]:
    """What a scheduler has written about its attempts, by the annotation's name without its
    prefix.
    """
    annotations = ((obj or {}).get("metadata") or {}).get("annotations") or {}
    return {
        key.removeprefix(RESULTS): value
        for key, value in annotations.items()
        if key.startswith(RESULTS)
    }


def parsed(result: str) -> Any:
    """What one of them says as JSON, or itself."""
    try:
        return orjson.loads(result)
    except orjson.JSONDecodeError:
        return result
