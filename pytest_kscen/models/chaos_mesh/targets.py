"""What chaos acts on: for each kind, where its selectors stand and whether they mean pods or
containers; and a target's name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.selectors import field_at, requirements_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pytest_kscen.chance import Stream
    from pytest_kscen.objects.resources import Obj


# Who is hit: the pods that a selector describes, and how many of them by a mode. Pure; chance
# is given. Field by field as Chaos Mesh does it: pods that are named are all that is looked at;
# without namespaces the chaos' own counts.


T = TypeVar("T")

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


class NothingSelected(ValueError):
    """Why there is no target."""


def selected(
    selector: Obj, namespace: str, pods: Mapping[Ref, Obj], nodes: Iterable[Obj]
) -> list[Obj]:
    """Pods in the order of their names. `namespace` is the chaos' own."""
    if named := selector.get("pods"):
        refs = (Ref(place, name) for place in sorted(named) for name in sorted(set(named[place])))
        return [pods[ref] for ref in refs if ref in pods]
    places = set(selector.get("namespaces") or (namespace,))
    where, asks = _selected_nodes(selector, nodes), _pod_filters(selector)
    near = (
        ref
        for ref, pod in pods.items()
        if ref.namespace in places and (where is None or pod["spec"].get("nodeName") in where)
    )
    found = {ref: pods[ref] for ref in near if all(ask(pods[ref]) for ask in asks)}
    return [found[ref] for ref in sorted(found)]


def _selected_nodes(selector: Obj, nodes: Iterable[Obj]) -> set[str] | None:
    """The nodes that are named, and those with these labels; None if any will do."""
    named, labels = selector.get("nodes"), selector.get("nodeSelectors")
    if not named and not labels:
        return None
    labelled = (node["metadata"] for node in nodes) if labels else ()
    return {
        *(named or ()),
        *(each["name"] for each in labelled if _holds(labels or {}, each.get("labels"))),
    }


def _pod_filters(selector: Obj) -> list[Callable[[Obj], bool]]:
    """What is asked of each pod; of what the selector does not speak, nothing."""
    labels, annotations = selector.get("labelSelectors"), selector.get("annotationSelectors")
    read = requirements_of({"matchExpressions": selector.get("expressionSelectors") or ()})
    if wrong := next((each.operator for each in read if each.operator not in OPERATORS), ""):
        raise NothingSelected(f"{wrong!r} is no operator: there are {', '.join(OPERATORS)}")
    expressions, fields, phases = (
        read,
        selector.get("fieldSelectors"),
        selector.get("podPhaseSelectors"),
    )
    asks: list[Callable[[Obj], bool]] = []
    if labels:
        asks.append(lambda pod: _holds(labels, pod["metadata"].get("labels")))
    if expressions:
        asks.append(
            lambda pod: all(each.holds(pod["metadata"].get("labels") or {}) for each in expressions)
        )
    if annotations:
        asks.append(lambda pod: _holds(annotations, pod["metadata"].get("annotations")))
    if fields:
        asks.append(
            lambda pod: all(
                str(field_at(pod, path) or "") == value for path, value in fields.items()
            )
        )
    if phases:
        asks.append(lambda pod: _is_in(phases, (pod.get("status") or {}).get("phase", "")))
    return asks


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


SELF, TARGET = ".", ".Target"
OUTSIDE_CLUSTER = {
    "AWSChaos": "AWS",
    "AzureChaos": "Azure",
    "GCPChaos": "GCP",
    "PhysicalMachineChaos": "a physical machine",
}
"""Kinds whose targets are not in a cluster, and where they are."""
POD_LEVEL_KINDS = ("NetworkChaos", "HTTPChaos", "KernelChaos")
"""All others act on containers."""


class Target(NamedTuple):
    """One of them, as a record names it."""

    key: str
    namespace: str
    pod: str
    container: str = ""

    @property
    def id(self) -> str:
        return "/".join(part for part in self[1:] if part)

    @property
    def ref(self) -> Ref:
        return Ref(self.namespace, self.pod)

    @classmethod
    def of(cls, record: Obj) -> Target:
        """Somebody else may have written anything into it: what is no name is nobody's."""
        namespace, pod, container, *_ = f"{record['id']}//".split("/")
        return cls(record["selectorKey"], namespace, pod, container)


def targets_of(
    chaos: Obj, pods: Mapping[Ref, Obj], nodes: Iterable[Obj], chance: Stream
) -> list[Target]:
    """Chosen now, and never again."""
    found = []
    if place := OUTSIDE_CLUSTER.get(chaos["kind"]):
        raise NothingSelected(f"its target is {place}, and nothing here can act on that")
    for key, selection in _selections(chaos):
        namespace, nodes = chaos["metadata"]["namespace"], list(nodes)
        among = selected(selection.get("selector") or {}, namespace, pods, nodes)
        try:
            hit = chosen(selection.get("mode", ""), selection.get("value", ""), among, chance)
        except NothingSelected as why:
            raise NothingSelected(f"{'target: ' if key == TARGET else ''}{why}") from None
        refs = [(pod["metadata"]["namespace"], pod["metadata"]["name"], pod) for pod in hit]
        found += [
            Target(key, place, name, each)
            for place, name, pod in refs
            for each in _containers(chaos, pod)
        ]
    return found


def _selections(chaos: Obj) -> Iterator[tuple[str, Obj]]:
    yield SELF, chaos["spec"]
    if chaos["kind"] == "NetworkChaos" and chaos["spec"].get("target"):
        yield TARGET, chaos["spec"]["target"]


def _containers(chaos: Obj, pod: Obj) -> list[str]:
    """Those that are named, else the first; an empty name means the pod as a whole."""
    kind, spec = chaos["kind"], chaos["spec"]
    if kind in POD_LEVEL_KINDS or (kind == "PodChaos" and spec["action"] != "container-kill"):
        return [""]
    there = [each["name"] for each in pod["spec"]["containers"]]
    wanted = spec.get("containerNames")
    return [name for name in there if name in wanted] if wanted else there[:1]


# What the daemon asks of an effect.


@dataclass(frozen=True, slots=True)
class NotYet:
    """Not yet, and why; the daemon asks again when the target has changed."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class Gone:
    """There is no such target any more."""


GONE = Gone()


class Effect(Protocol):
    """On the pods, as they are now; one that is None has vanished, or another has taken its
    name.
    """

    async def inject(self, chaos: Obj, target: Target, pod: Obj | None) -> NotYet | Gone | None:
        """None: all that can be done is done. Asked again until the effect is seen."""

    def unseen(self, chaos: Obj, target: Target) -> str:
        """Why the effect cannot be seen yet; empty if it is there.

        Asked after all targets have been injected.
        """

    async def recover(self, chaos: Obj, target: Target, pod: Obj | None) -> NotYet | Gone | None:
        """Undo what was done to this target; nothing of it is left in here."""

    def forget(self, chaos: Obj) -> None:
        """It has gone, perhaps without being recovered, because somebody took its finalizer
        away.
        """
