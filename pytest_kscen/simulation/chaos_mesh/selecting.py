"""Who is hit: the pods that a selector describes, and how many of them by a mode. Pure; chance is given.

Field by field as Chaos Mesh does it: pods that are named are all that is looked at; without namespaces the chaos' own counts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

from pytest_kscen.kube.picture import Ref
from pytest_kscen.objects.selectors import field_at, requirements_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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
    where = _machines(selector, nodes)
    found = (pod for ref, pod in sorted(pods.items(), key=lambda item: item[0]) if ref.namespace in places)
    return [pod for pod in found if (where is None or pod["spec"].get("nodeName") in where) and _matches(selector, pod)]


def _machines(selector: Obj, nodes: Iterable[Obj]) -> set[str] | None:
    """The nodes that are named, and those with these labels; None if any will do."""
    named, labels = selector.get("nodes"), selector.get("nodeSelectors")
    if not named and not labels:
        return None
    labelled = (node["metadata"] for node in nodes) if labels else ()
    return {*(named or ()), *(each["name"] for each in labelled if _holds(labels or {}, each.get("labels")))}


def _matches(selector: Obj, pod: Obj) -> bool:
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    return (
        _holds(selector.get("labelSelectors") or {}, labels)
        and all(requirement.holds(labels) for requirement in _requirements(selector))
        and _holds(selector.get("annotationSelectors") or {}, metadata.get("annotations"))
        and all(str(field_at(pod, path) or "") == value for path, value in (selector.get("fieldSelectors") or {}).items())
        and _is_in(selector.get("podPhaseSelectors") or (), (pod.get("status") or {}).get("phase", ""))
    )


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
