"""What a scenario asks of its cluster's scheduler: to work by a configuration of the scenario's own while it is on.

A Scenario carries its KubeSchedulerConfiguration as an annotation; without one, that of the cluster holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import yaml

from pytest_kscen.objects.scenarios import GROUP

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

ANNOTATION = f"{GROUP}/scheduler-configuration"
KIND = "KubeSchedulerConfiguration"


class Scheduling(Protocol):
    """A cluster's scheduler."""

    async def adopt(self, written: str) -> None:
        """Work by this KubeSchedulerConfiguration, or by the cluster's if it is empty; a ValueError says what is wrong with it."""

    async def revert(self) -> None:
        """The scenario is over: the cluster's configuration holds again."""


def configuration_of(scenario: Obj) -> str:
    """What the Scenario carries; empty if it carries none."""
    return str((scenario["metadata"].get("annotations") or {}).get(ANNOTATION) or "")


def configured(scenario: Obj, configuration: Obj) -> Obj:
    """The Scenario, carrying this one."""
    metadata = scenario["metadata"]
    annotations = {**(metadata.get("annotations") or {}), ANNOTATION: yaml.safe_dump(configuration, sort_keys=False)}
    return {**scenario, "metadata": {**metadata, "annotations": annotations}}
