"""Parameters of a workflow: plain values, put at their paths in its spec.

A path names a field that the spec has already, so that no value goes unread:
`templates[cut].deadline`, `templates[0].networkChaos.delay.latency`. Brackets hold the name or the
number of a list's element, or a key of a map.
"""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.arguments import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.objects.resources import Obj

STEP = re.compile(r"\.?(?P<name>[^.\[\]]+)|\[(?P<inside>[^\[\]]+)\]")
KINDS = {
    bool: "a bool",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "a map",
    type(None): "nothing",
}


class ParameterError(ValueError):
    """Report an unknown parameter, one without a value, or a value that does not fit its path."""


def apply_parameters(spec: Obj, given: Mapping[str, Any]) -> Obj:
    """Return a copy of the spec with the given values, or else the declared ones, at their
    paths.
    """
    parameters = list(spec.get("parameters") or ())
    names: list[str] = []
    for at, parameter in enumerate(parameters):
        name = parameter.get("name")
        if not name or not isinstance(name, str):
            raise ParameterError(f"parameters[{at}]: a parameter needs a name")
        if name in names:
            raise ParameterError(f"parameter {name!r} is declared twice")
        names.append(name)
    for name in given:
        if name not in names:
            known = f"; there are {', '.join(names)}" if names else "; the workflow has none"
            raise ParameterError(f"there is no parameter {name!r}{nearest(name, names)}{known}")
    result: Obj = copy.deepcopy(dict(spec))
    for at, parameter in enumerate(parameters):
        name = parameter["name"]
        if name not in given and "value" not in parameter:
            raise ParameterError(
                f"parameter {name!r} has no value: pass one, or declare a default value"
            )
        value = given[name] if name in given else parameter["value"]
        for path in parameter.get("paths") or ():
            _set_value(result, str(path), value, f"parameter {name!r}: {path}")
        result["parameters"][at]["value"] = copy.deepcopy(value)
    return result


def values_of(spec: Obj) -> dict[str, Any]:
    """Return the values by parameter name, as far as they can be read: the spec may be invalid."""
    declared = spec.get("parameters")
    sound = (
        [each for each in declared if isinstance(each, dict) and "value" in each]
        if isinstance(declared, list)
        else []
    )
    return {str(each.get("name")): each["value"] for each in sound}


def _set_value(spec: Obj, path: str, value: Any, subject: str) -> None:
    steps, at = [], 0
    while found := STEP.match(path, at):
        steps.append(found["name"] or found["inside"])
        at = found.end()
    if not steps or at < len(path) or path.startswith("."):
        raise ParameterError(f"{subject}: not a path; write one as in templates[cut].deadline")
    *way, last = steps
    holder: Any = spec
    for step in way:
        holder = holder[_key(holder, step, subject)]
    key = _key(holder, last, subject)
    there = holder[key]
    if there is not None and _kind(there) != _kind(value):
        raise ParameterError(
            f"{subject}: the field has {_kind(there)} ({there!r}), and {value!r} is {_kind(value)}"
        )
    holder[key] = copy.deepcopy(value)


def _key(holder: Any, step: str, subject: str) -> str | int:
    """Return the key or index that a step of a path selects in a map or list."""
    if isinstance(holder, dict):
        if step in holder:
            return step
        raise ParameterError(f"{subject}: there is no {step!r}{nearest(step, map(str, holder))}")
    if not isinstance(holder, list):
        raise ParameterError(f"{subject}: there is nothing below {_kind(holder)}, so no {step!r}")
    names = [
        str(each.get("name")) for each in holder if isinstance(each, dict) and each.get("name")
    ]
    for at, each in enumerate(holder):
        if isinstance(each, dict) and each.get("name") == step:
            return at
    if step.isdecimal() and step.isascii() and int(step) < len(holder):
        return int(step)
    raise ParameterError(
        f"{subject}: of {len(holder)} elements none is {step!r}{nearest(step, names)}"
    )


def _kind(value: Any) -> str:
    return KINDS.get(type(value)) or f"a {type(value).__name__}"
