"""A Scenario as somebody hands it over: an object, or a YAML file of several documents.

What is no Scenario is refused here, before any cluster is touched, with the file and the line.
"""

from __future__ import annotations

import pathlib
import re
from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.documents import Document, DocumentRefused, documents
from pytest_kscen.objects.guesses import nearest
from pytest_kscen.objects.scenarios import SCENARIOS
from pytest_kscen.scenario.fitting import misfits
from pytest_kscen.scenario.scheduling import KIND as CONFIGURATION
from pytest_kscen.scenario.scheduling import configured

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_kscen.objects.resources import Obj

PLACE = re.compile(r"spec\.operations\[(\d+)\]")


class ScenarioRefused(DocumentRefused):
    """What was given is no Scenario that could be played. The words say where, and why."""


def scenario_of(source: Any, name: str = "", scheduler: Any = None) -> Obj:
    """The one Scenario of a file, or the object itself; by another name, or with a scheduler's configuration, if one is given."""
    if isinstance(source, dict):
        scenario = checked(Document("the object", source))
    elif isinstance(source, str | pathlib.Path):
        scenario = _only_one(pathlib.Path(source))
    else:
        raise ScenarioRefused(f"{source!r} is neither a Scenario nor the path of a file that has one")
    if scheduler is not None:
        scenario = configured(scenario, configuration_from(scheduler))
    return {**scenario, "metadata": {**scenario["metadata"], "name": name}} if name else scenario


def configuration_from(source: Any) -> Obj:
    """The KubeSchedulerConfiguration of a file, or the object itself."""
    found = [Document("the object", source)] if isinstance(source, dict) else documents(pathlib.Path(source))
    configuration = configuration_among(found)
    if len(found) != 1 or configuration is None:
        raise ScenarioRefused(f"{source} is no {CONFIGURATION}, which would say kind: {CONFIGURATION}")
    return configuration


def configuration_among(found: Iterable[Document]) -> Obj | None:
    """The scheduler's configuration that stands in a file beside its Scenarios."""
    configurations = [each for each in found if is_configuration(each)]
    if len(configurations) > 1:
        raise ScenarioRefused(f"{configurations[1].at()}: there is a {CONFIGURATION} before it, and it holds for the whole file")
    return configurations[0].content if configurations else None


def is_configuration(document: Document) -> bool:
    return isinstance(document.content, dict) and document.content.get("kind") == CONFIGURATION


def _only_one(path: pathlib.Path) -> Obj:
    found = documents(path)
    if not found:
        raise ScenarioRefused(f"{path} is empty: a Scenario begins with apiVersion: {SCENARIOS.api_version} and kind: Scenario")
    scenarios = [each for each in found if each.kind_is(SCENARIOS.api_version, SCENARIOS.kind)]
    if len(scenarios) > 1:
        names = ", ".join(f"{each.name!r}" for each in scenarios)
        raise ScenarioRefused(f"{path} has {len(scenarios)} Scenarios, {names}: give one as an object, or each its own file")
    scenario = read_from_file(scenarios[0] if scenarios else found[0])
    configuration = configuration_among(found)
    return configured(scenario, configuration) if configuration else scenario


def with_ids(message: str, operations: Sequence[Obj]) -> str:
    """What an API server says of operations, by their ids where they have any."""

    def named(found: re.Match[str]) -> str:
        number = int(found[1])
        operation = operations[number] if number < len(operations) else ""
        known = operation.get("id") if isinstance(operation, dict) else ""
        return f"operation {known!r}" if known else found[0]

    return PLACE.sub(named, message)


def checked(document: Document) -> Obj:
    """The Scenario that this is; what its own schema says of the rest, the API server says."""
    obj, where = document.content, document.at()
    if not isinstance(obj, dict):
        raise ScenarioRefused(f"{where} is no Scenario but {_kind_of(obj)}")
    for key, wanted in (("apiVersion", SCENARIOS.api_version), ("kind", SCENARIOS.kind)):
        if obj.get(key) != wanted:
            said = f"has the {key} {obj[key]!r}" if obj.get(key) else f"has no {key}"
            raise ScenarioRefused(f"{document.at(key)} {said}: that of a Scenario is {wanted!r}")
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise ScenarioRefused(f"{document.at('metadata')} has no metadata.name: a Scenario is known by it")
    if not isinstance(obj.get("spec"), dict):
        raise ScenarioRefused(f"{document.at('spec')} has no spec: operations and controllers stand there")
    for key in obj:
        if key not in (known := ("apiVersion", "kind", "metadata", "spec", "status")):
            raise ScenarioRefused(f"{document.at(key)} has {key!r}, which no Scenario has{nearest(key, known)}")
    return obj


def read_from_file(document: Document) -> Obj:
    """The Scenario that this is; all that does not fit it is told with its lines."""
    scenario = checked(document)
    if wrong := [f"{document.at(*path)} {why}" for path, why in misfits(scenario["spec"])]:
        raise ScenarioRefused("\n".join(wrong))
    return scenario


def _kind_of(value: Any) -> str:
    return "a list" if isinstance(value, list) else f"the {type(value).__name__} {value!r}"
