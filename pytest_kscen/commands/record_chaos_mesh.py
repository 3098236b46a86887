"""`python -m pytest_kscen record-chaos-mesh FOLDER`: record Chaos Mesh's definitions, without
descriptions and with shared schemas written once, into the package.

Run it once for each release of Chaos Mesh that is simulated.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from pytest_kscen.objects.chaos_mesh_definitions import DATA, PART

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

MIN_SHARED_LENGTH = 120  # characters of JSON from which a repeated schema gets a name


class Parts:
    """Schemas that occur several times in the definitions, to be written once.

    A schema is named after the property of its first occurrence, with a number if the name is
    taken.
    """

    def __init__(self, definitions: list[Obj]) -> None:
        self._places: Counter[str] = Counter()
        self._seen: set[str] = set()
        self._names: dict[str, str] = {}
        self.shared: dict[str, Any] = {}
        for definition in definitions:
            self._count(definition)

    def _count(self, value: Any) -> None:
        """Count the occurrences of a value, and of all schemas and lists inside it.

        The parts of a repeated value are counted once.
        """
        if not isinstance(value, dict | list):
            return
        text = _text(value)
        self._places[text] += 1
        if text not in self._seen:
            self._seen.add(text)
            for inner in value.values() if isinstance(value, dict) else value:
                self._count(inner)

    def reduced(self, value: Any, name: str = "") -> Any:
        """Return the value with references in place of shared schemas.

        Schemas shorter than MIN_SHARED_LENGTH characters are not shared. Adds to `shared`,
        so the order of the calls decides the names.
        """
        if isinstance(value, list):
            return [self.reduced(inner, name) for inner in value]
        if not isinstance(value, dict):
            return value
        text = _text(value)
        is_schema = isinstance(value.get("type"), str)
        if not is_schema or self._places[text] == 1 or len(text) < MIN_SHARED_LENGTH:
            return {
                key: self.reduced(inner, name if key in {"items", "properties"} else key)
                for key, inner in value.items()
            }
        if text not in self._names:
            candidates = [name, *(f"{name}-{number}" for number in range(2, len(self.shared) + 3))]
            self._names[text] = part_name = next(
                each for each in candidates if each not in self.shared
            )
            self.shared[part_name] = None  # reserve the name before the parts are named
            self.shared[part_name] = {
                key: self.reduced(inner, name if key in {"items", "properties"} else key)
                for key, inner in value.items()
            }
        return {PART: self._names[text]}


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def without_prose(schema: Any) -> Any:
    if isinstance(schema, list):
        return [without_prose(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: without_prose(part)
        for name, part in schema.items()
        if not (name == "description" and isinstance(part, str))
    }


def record(folder: Path, into: Path) -> None:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    # the safe one
    texts = [path.read_text() for path in sorted(folder.glob("*.yaml"))]
    files = [yaml.load(text, loader) for text in texts]  # noqa: S506
    definitions = [without_prose(definition) for definition in files if definition]
    if not definitions:
        raise FileNotFoundError(
            f"{folder} has no definitions: give the folder with Chaos Mesh's CRDs as YAML files"
        )
    parts = Parts([definition["spec"] for definition in definitions])
    shipped = {each["spec"]["names"]["kind"]: parts.reduced(each["spec"]) for each in definitions}
    sections = []
    for section, members in (("shipped", shipped), ("parts", parts.shared)):
        lines = ",\n".join(
            f"{json.dumps(name)}: {json.dumps(member, separators=(',', ':'))}"
            for name, member in sorted(members.items())
        )
        sections.append(f'"{section}": {{\n{lines}\n}}')
    into.write_text("{\n" + ",\n".join(sections) + "\n}\n")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m pytest_kscen record-chaos-mesh", description=__doc__
    )
    parser.add_argument(
        "folder", type=Path, help="where Chaos Mesh's definitions are, one YAML file for each"
    )
    parser.add_argument(
        "--into", type=Path, default=DATA, help="the file to write (default: the package's own)"
    )
    options = parser.parse_args(arguments)
    record(options.folder, options.into)
    return 0
