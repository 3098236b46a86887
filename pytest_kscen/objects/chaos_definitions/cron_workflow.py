"""The definition of CronWorkflow: a Schedule that spawns nothing but workflows, under the design document's name."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pytest_kscen.objects.chaos_definitions import additions
from pytest_kscen.objects.chaos_definitions.definitions import engine_definitions
from pytest_kscen.objects.workflows import CRON_WORKFLOWS

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

FIELDS = ("schedule", "startingDeadlineSeconds", "concurrencyPolicy", "historyLimit", "workflow")
REQUIRED = ["schedule", "workflow"]
COLUMNS = [additions.column("Schedule", ".spec.schedule"), additions.column("Last", ".status.time", "date"), additions.AGE]


@functools.cache
def cron_workflow_definition() -> Obj:
    """What is said of Schedules holds for it, too."""
    (schedule,) = (each for each in engine_definitions() if each["spec"]["names"]["kind"] == "Schedule")
    (version,) = schedule["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    properties = schema["properties"]
    spec = {name: properties["spec"]["properties"][name] for name in FIELDS}
    spec["type"] = {"type": "string", "enum": ["Workflow"]}  # as in a Schedule that becomes one
    narrowed = {"type": "object", "required": REQUIRED, "properties": spec}
    names = {
        "kind": CRON_WORKFLOWS.kind,
        "listKind": f"{CRON_WORKFLOWS.kind}List",
        "plural": CRON_WORKFLOWS.plural,
        "singular": CRON_WORKFLOWS.kind.lower(),
    }
    served = {
        **version,
        "schema": {"openAPIV3Schema": {**schema, "properties": {**properties, "spec": narrowed}}},
        "additionalPrinterColumns": COLUMNS,
    }
    return {
        **schedule,
        "metadata": {"name": f"{CRON_WORKFLOWS.plural}.{CRON_WORKFLOWS.group}"},
        "spec": {**schedule["spec"], "group": CRON_WORKFLOWS.group, "names": names, "versions": [served]},
    }
