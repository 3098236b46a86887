"""Who is hit: the pods that a selector describes, and how many of them by a mode. Pure; chance is given.

Field by field as Chaos Mesh does it: pods that are named are all that is looked at; without namespaces the chaos' own counts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

from pytest_kscen.kube.picture import Ref
from pytest_kscen.objects.selectors import field_at, requirements_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytest_kscen.chance import Stream
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.objects.selectors import Requirement

T = TypeVar("T")

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


class NothingSelected(ValueError):
    """Why there is no target."""


def selected(selector: Obj, namespace: str, pods: Mapping[Ref, Obj], nodes: Iterable[Obj]) -> list[Obj]:
    """Pods in the order of their names. `namespace` is the chaos' own."""
    if named := selector.get("pods"):
        refs = (Ref(place, name) for place in sorted(named) for name in sorted(set(named[place])))
        return [pods[ref] for ref in refs if ref in pods]
    places = set(selector.get("namespaces") or (namespace,))
    where, asks = _machines(selector, nodes), _questions(selector)
    near = (ref for ref, pod in pods.items() if ref.namespace in places and (where is None or pod["spec"].get("nodeName") in where))
    found = {ref: pods[ref] for ref in near if all(ask(pods[ref]) for ask in asks)}
    return [found[ref] for ref in sorted(found)]


def _machines(selector: Obj, nodes: Iterable[Obj]) -> set[str] | None:
    """The nodes that are named, and those with these labels; None if any will do."""
    named, labels = selector.get("nodes"), selector.get("nodeSelectors")
    if not named and not labels:
        return None
    labelled = (node["metadata"] for node in nodes) if labels else ()
    return {*(named or ()), *(each["name"] for each in labelled if _holds(labels or {}, each.get("labels")))}


def _questions(selector: Obj) -> list[Callable[[Obj], bool]]:
    """What is asked of each pod; of what the selector does not speak, nothing."""
    labels, annotations = selector.get("labelSelectors"), selector.get("annotationSelectors")
    expressions, fields, phases = _requirements(selector), selector.get("fieldSelectors"), selector.get("podPhaseSelectors")
    asks: list[Callable[[Obj], bool]] = []
    if labels:
        asks.append(lambda pod: _holds(labels, pod["metadata"].get("labels")))
    if expressions:
        asks.append(lambda pod: all(each.holds(pod["metadata"].get("labels") or {}) for each in expressions))
    if annotations:
        asks.append(lambda pod: _holds(annotations, pod["metadata"].get("annotations")))
    if fields:
        asks.append(lambda pod: all(str(field_at(pod, path) or "") == value for path, value in fields.items()))
    if phases:
        asks.append(lambda pod: _is_in(phases, (pod.get("status") or {}).get("phase", "")))
    return asks


def _requirements(selector: Obj) -> list[Requirement]:
    read = requirements_of({"matchExpressions": selector.get("expressionSelectors") or ()})
    if wrong := next((each.operator for each in read if each.operator not in OPERATORS), ""):
        raise NothingSelected(f"{wrong!r} is no operator: there are {', '.join(OPERATORS)}")
    return read


def _holds(wanted: Mapping[str, str], there: Mapping[str, str] | None) -> bool:
    return all((there or {}).get(key) == value for key, value in wanted.items())


def _is_in(phases: Iterable[str], phase: str) -> bool:
    """`!Running` means any but that."""
    wanted = [each for each in phases if not each.startswith("!")]
    return f"!{phase}" not in phases and (not wanted or phase in wanted)


def chosen(mode: str, value: str, among: Sequence[T], chance: Stream) -> list[T]:
    """As many as the mode says, and no particular ones."""
    if not among:
        raise NothingSelected("no pod is selected")
    count = _count(mode, value, len(among), chance)
    if not count:
        raise NothingSelected(f"{mode} {value} of {len(among)} is none")
    return list(among) if count >= len(among) else chance.sample(among, count)


def _count(mode: str, value: str, there: int, chance: Stream) -> int:
    match mode:
        case "all":
            return there
        case "one":
            return 1
        case "fixed":
            return min(there, int(_number(mode, value, math.inf)))
        case "fixed-percent":
            return math.floor(there * _number(mode, value, 100) / 100)
        case "random-max-percent":
            return math.floor(there * chance.whole(0, int(_number(mode, value, 100))) / 100)
    raise NothingSelected(f"mode {mode!r} is not supported")


def _number(mode: str, value: str, most: float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not (0 < number <= most and math.isfinite(number)):
        raise NothingSelected(f"value {value!r} is invalid for mode {mode}")
    return number
