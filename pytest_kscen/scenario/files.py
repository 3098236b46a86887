"""Read a Scenario from an object or a YAML file, and check it against the schema with line
numbers.
"""

from __future__ import annotations

import pathlib
import re
from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.arguments import nearest
from pytest_kscen.objects.documents import Document, DocumentRefused, documents
from pytest_kscen.objects.scenarios import SCENARIOS
from pytest_kscen.scenario.models import KIND as CONFIGURATION
from pytest_kscen.scenario.models import ScenarioSpec, configured, schema_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_kscen.objects.resources import Obj


Path = tuple[str, ...]

TYPES: dict[str, tuple[type, str]] = {
    "object": (dict, "a map"),
    "array": (list, "a list"),
    "string": (str, "a text"),
    "integer": (int, "a whole number"),
    "boolean": (bool, "true or false"),
}


FILLED_IN = ("id",)


def misfits(spec: Any) -> Iterator[tuple[Path, str]]:
    """Yield the paths at which a written spec does not fit its schema, with the reason."""
    yield from _misfits(spec, schema_of(ScenarioSpec), ("spec",))


def _misfits(value: Any, schema: Obj, path: Path) -> Iterator[tuple[Path, str]]:
    wanted, words = TYPES[schema["type"]]
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        yield path, f"{path[-1]} is {value!r}: it has to be {words}"
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _misfits(each, schema["items"], (*path, str(number)))
        for key in schema.get("x-kubernetes-list-map-keys") or ():
            seen: set[str] = set()
            for number, each in enumerate(value):
                name = str(each.get(key) or "") if isinstance(each, dict) else ""
                if name in seen:
                    yield (*path, str(number)), f"an earlier one has the same {key}, {name!r}"
                seen |= {name} - {""}
    elif isinstance(value, dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        yield from _misfits_in(value, schema, path)


def _misfits_in(value: Obj, schema: Obj, path: Path) -> Iterator[tuple[Path, str]]:
    properties = schema.get("properties") or {}
    for name in schema.get("required") or ():
        if value.get(name) is None and name not in FILLED_IN:
            yield path, f"{name} is missing"
    for name, part in value.items():
        if name not in properties:
            yield (
                (*path, str(name)),
                f"unknown field {name!r}{nearest(str(name), properties)}",
            )
        elif part is not None:
            yield from _misfits(part, properties[name], (*path, name))


PLACE = re.compile(r"spec\.operations\[(\d+)\]")


class ScenarioRefused(DocumentRefused):
    """Document that is not a playable Scenario. The message has file, line and reason."""


def scenario_of(source: Any, name: str = "", scheduler: Any = None) -> Obj:
    """Return the Scenario of an object, or of a file that has exactly one.

    `name` replaces its name. `scheduler` is the scheduler's configuration; by default a
    configuration in the same file applies. Raise ScenarioRefused with the reason.
    """
    if isinstance(source, dict):
        scenario = checked(Document("the object", source))
    elif isinstance(source, str | pathlib.Path):
        path = pathlib.Path(source)
        found = documents(path)
        if not found:
            raise ScenarioRefused(
                f"{path} is empty: a Scenario begins with apiVersion: {SCENARIOS.api_version} "
                "and kind: Scenario"
            )
        scenarios = [each for each in found if each.kind_is(SCENARIOS.api_version, SCENARIOS.kind)]
        if len(scenarios) > 1:
            names = ", ".join(f"{each.name!r}" for each in scenarios)
            raise ScenarioRefused(
                f"{path} has {len(scenarios)} Scenarios, {names}: give one as an object, or "
                "each its own file"
            )
        scenario = read_from_file(scenarios[0] if scenarios else found[0])
        if configuration := configuration_among(found):
            scenario = configured(scenario, configuration)
    else:
        raise ScenarioRefused(
            f"{source!r} is neither a Scenario nor the path of a file that has one"
        )
    if scheduler is not None:
        scenario = configured(scenario, configuration_from(scheduler))
    return {**scenario, "metadata": {**scenario["metadata"], "name": name}} if name else scenario


def configuration_from(source: Any) -> Obj:
    """Return the KubeSchedulerConfiguration of an object, or of a file with this one document."""
    found = (
        [Document("the object", source)]
        if isinstance(source, dict)
        else documents(pathlib.Path(source))
    )
    configuration = configuration_among(found)
    if len(found) != 1 or configuration is None:
        raise ScenarioRefused(
            f"{source} is not a {CONFIGURATION}: write one document with kind: {CONFIGURATION}"
        )
    return configuration


def configuration_among(found: Iterable[Document]) -> Obj | None:
    """Return the scheduler's configuration among a file's documents, if there is one; raise
    ScenarioRefused if there are several.
    """
    configurations = [each for each in found if is_configuration(each)]
    if len(configurations) > 1:
        raise ScenarioRefused(
            f"{configurations[1].at()}: a second {CONFIGURATION}; the first applies to the "
            "whole file: delete one"
        )
    return configurations[0].content if configurations else None


def is_configuration(document: Document) -> bool:
    return isinstance(document.content, dict) and document.content.get("kind") == CONFIGURATION


def with_ids(message: str, operations: Sequence[Obj]) -> str:
    """Return an API server's message with the ids of operations in place of their numbers."""

    def named(found: re.Match[str]) -> str:
        number = int(found[1])
        operation = operations[number] if number < len(operations) else ""
        known = operation.get("id") if isinstance(operation, dict) else ""
        return f"operation {known!r}" if known else found[0]

    return PLACE.sub(named, message)


def checked(document: Document) -> Obj:
    """Return the Scenario of a document. Its schema is checked later, by the API server."""
    obj, where = document.content, document.at()
    if not isinstance(obj, dict):
        kind = "a list" if isinstance(obj, list) else f"the {type(obj).__name__} {obj!r}"
        raise ScenarioRefused(f"{where} is not a Scenario but {kind}")
    for key, wanted in (("apiVersion", SCENARIOS.api_version), ("kind", SCENARIOS.kind)):
        if obj.get(key) != wanted:
            found = f"has the {key} {obj[key]!r}" if obj.get(key) else f"has no {key}"
            raise ScenarioRefused(f"{document.at(key)} {found}: a Scenario has {wanted!r}")
    metadata = obj.get("metadata")
    if (
        not isinstance(metadata, dict)
        or not isinstance(metadata.get("name"), str)
        or not metadata["name"]
    ):
        raise ScenarioRefused(
            f"{document.at('metadata')} has no metadata.name: give the Scenario a name"
        )
    if not isinstance(obj.get("spec"), dict):
        raise ScenarioRefused(
            f"{document.at('spec')} has no spec: it must contain operations and controllers"
        )
    for key in obj:
        if key not in (known := ("apiVersion", "kind", "metadata", "spec", "status")):
            raise ScenarioRefused(
                f"{document.at(key)} has the unknown field {key!r}{nearest(key, known)}"
            )
    return obj


def read_from_file(document: Document) -> Obj:
    """Return the Scenario of a document, checked against the schema; raise ScenarioRefused with the
    line of every error.
    """
    scenario = checked(document)
    if wrong := [f"{document.at(*path)} {why}" for path, why in misfits(scenario["spec"])]:
        raise ScenarioRefused("\n".join(wrong))
    return scenario
