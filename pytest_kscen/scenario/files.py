"""A Scenario as somebody hands it over: an object, or a YAML file of several documents, each of which knows its lines.

What is no Scenario is refused here, before any cluster is touched, with the file and the line.
"""

from __future__ import annotations

import copy
import pathlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from pytest_kscen.objects.guesses import nearest
from pytest_kscen.objects.scenarios import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.objects.resources import Obj

Path = tuple[str, ...]
TIMESTAMP = "tag:yaml.org,2002:timestamp"


class ScenarioRefused(ValueError):
    """What was given is no Scenario that could be played. The words say where, and why."""


class _Loader(yaml.SafeLoader):
    """Times stay text, as Kubernetes has them."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # as yaml declares it
        first: [(tag, regexp) for tag, regexp in resolvers if tag != TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file."""

    where: str
    content: Any
    lines: Mapping[Path, int] = field(default_factory=dict, repr=False)

    def at(self, *path: str) -> str:
        """The file and the line of what is at this path, or of the nearest above it."""
        while path not in self.lines and path:
            path = path[:-1]
        return f"{self.where}:{self.lines.get(path, 1)}"

    def kind_is(self, api_version: str, kind: str) -> bool:
        obj = self.content if isinstance(self.content, dict) else {}
        return (obj.get("apiVersion"), obj.get("kind")) == (api_version, kind)


def documents(path: pathlib.Path) -> list[Document]:
    """Those that are not empty."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ScenarioRefused(f"there is no file {str(path)!r}{_beside(path)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioRefused(f"{path} cannot be read: {error}") from error
    try:
        loader = _Loader(text)
        nodes = []
        while loader.check_node():
            nodes.append(loader.get_node())
        found = [Document(str(path), loader.construct_document(node), _lines(node)) for node in nodes]
    except yaml.YAMLError as error:
        raise ScenarioRefused(_no_yaml(path, error)) from None
    return [each for each in found if each.content is not None]


def scenario_of(source: Any, name: str = "") -> Obj:
    """The one Scenario of a file, or the object itself; by another name if one is given."""
    if isinstance(source, dict):
        document = Document("the object", source)
    elif isinstance(source, str | pathlib.Path):
        document = _only_one(pathlib.Path(source))
    else:
        raise ScenarioRefused(f"{source!r} is neither a Scenario nor the path of a file that has one")
    scenario = checked(document)
    if not name:
        return scenario
    renamed = copy.copy(scenario)
    renamed["metadata"] = {**scenario["metadata"], "name": name}
    return renamed


def _only_one(path: pathlib.Path) -> Document:
    found = documents(path)
    if not found:
        raise ScenarioRefused(f"{path} is empty: a Scenario begins with apiVersion: {SCENARIOS.api_version} and kind: Scenario")
    scenarios = [each for each in found if each.kind_is(SCENARIOS.api_version, SCENARIOS.kind)]
    if len(scenarios) > 1:
        names = ", ".join(f"{_name(each)!r}" for each in scenarios)
        raise ScenarioRefused(f"{path} has {len(scenarios)} Scenarios, {names}: give one as an object, or each its own file")
    return scenarios[0] if scenarios else found[0]


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


def _lines(node: Any, path: Path = ()) -> dict[Path, int]:
    """The line of each key, by its path."""
    found = {path: node.start_mark.line + 1} if not path else {}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*path, str(key.value))
            found[here] = key.start_mark.line + 1
            found |= _lines(value, here)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            found[*path, str(number)] = value.start_mark.line + 1
            found |= _lines(value, (*path, str(number)))
    return found


def _no_yaml(path: pathlib.Path, error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = " ".join(part for part in (getattr(error, "context", ""), getattr(error, "problem", "")) if part)
    return f"{path}{f':{mark.line + 1}' if mark else ''} is no YAML: {problem or error}"


def _beside(path: pathlib.Path) -> str:
    folder = path.parent
    return nearest(path.name, (each.name for each in folder.iterdir())) if folder.is_dir() else ""


def _kind_of(value: Any) -> str:
    return "a list" if isinstance(value, list) else f"the {type(value).__name__} {value!r}"


def _name(document: Document) -> str:
    return str((document.content.get("metadata") or {}).get("name", ""))
