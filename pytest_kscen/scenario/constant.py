"""What of a Scenario stays as it is while it is on: operations may be added, but who takes part is settled when it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.scenario.models import Controllers
from pytest_kscen.scenario.scheduling import configuration_of
from pytest_kscen.scenario.shape import read

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj


def changed(new: Obj, old: Obj) -> str:
    """What of it is another now, in words; nothing if all is as it was."""
    before = _constant(old)
    return " and ".join(what for what, value in _constant(new).items() if value != before[what])


def _constant(scenario: Obj) -> dict[str, Any]:
    return {
        "the scheduler's configuration": configuration_of(scenario),
        "the scenario's controllers": read(Controllers, scenario["spec"].get("controllers")),
    }
