"""Targets of chaos: selection of pods and containers, and the protocol of effects.

Selection is pure, with draws from the given stream, and follows Chaos Mesh field by field: named
pods exclude all other selectors; without namespaces the object's own namespace is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.selectors import field_at, requirements_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytest_kscen.chance import Stream
    from pytest_kscen.objects.resources import Obj


T = TypeVar("T")

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


class NothingSelected(ValueError):
    """Error of a chaos object without a target: its selector has no matches, its mode draws none,
    or its kind acts outside the cluster.
    """


def selected(
    selector: Obj, namespace: str, pods: Mapping[Ref, Obj], nodes: Iterable[Obj]
) -> list[Obj]:
    """Return the selected pods in the order of their names. `namespace` is the chaos object's
    own.
    """
    if given := selector.get("pods"):
        refs = (Ref(place, name) for place in sorted(given) for name in sorted(set(given[place])))
        return [pods[ref] for ref in refs if ref in pods]
    places = set(selector.get("namespaces") or (namespace,))
    # names of the given nodes and of nodes with the labels; None for all nodes
    named, labels = selector.get("nodes"), selector.get("nodeSelectors")
    where: set[str] | None = None
    if named or labels:
        labelled = (node["metadata"] for node in nodes) if labels else ()
        where = {
            *(named or ()),
            *(each["name"] for each in labelled if _holds(labels or {}, each.get("labels"))),
        }
    filters = _pod_filters(selector)
    candidates = (
        ref
        for ref, pod in pods.items()
        if ref.namespace in places and (where is None or pod["spec"].get("nodeName") in where)
    )
    found = {ref: pods[ref] for ref in candidates if all(accepts(pods[ref]) for accepts in filters)}
    return [found[ref] for ref in sorted(found)]


def _pod_filters(selector: Obj) -> list[Callable[[Obj], bool]]:
    """Return the conditions of a selector, each a predicate on pods; fields not given add none."""
    labels, annotations = selector.get("labelSelectors"), selector.get("annotationSelectors")
    read = requirements_of({"matchExpressions": selector.get("expressionSelectors") or ()})
    if wrong := next((each.operator for each in read if each.operator not in OPERATORS), ""):
        raise NothingSelected(f"{wrong!r} is not an operator: there are {', '.join(OPERATORS)}")
    expressions, fields, phases = (
        read,
        selector.get("fieldSelectors"),
        selector.get("podPhaseSelectors"),
    )
    filters: list[Callable[[Obj], bool]] = []
    if labels:
        filters.append(lambda pod: _holds(labels, pod["metadata"].get("labels")))
    if expressions:
        filters.append(
            lambda pod: all(each.holds(pod["metadata"].get("labels") or {}) for each in expressions)
        )
    if annotations:
        filters.append(lambda pod: _holds(annotations, pod["metadata"].get("annotations")))
    if fields:
        filters.append(
            lambda pod: all(
                str(field_at(pod, path) or "") == value for path, value in fields.items()
            )
        )
    if phases:
        unwanted = [each[1:] for each in phases if each.startswith("!")]
        wanted = [each for each in phases if not each.startswith("!")]

        def has_phase(pod: Obj) -> bool:
            phase = (pod.get("status") or {}).get("phase", "")
            return phase not in unwanted and (not wanted or phase in wanted)

        filters.append(has_phase)
    return filters


def _holds(wanted: Mapping[str, str], there: Mapping[str, str] | None) -> bool:
    return all((there or {}).get(key) == value for key, value in wanted.items())


def chosen(mode: str, value: str, among: Sequence[T], chance: Stream) -> list[T]:
    """Draw the number of candidates that the mode requires. Raises NothingSelected if that is zero,
    and for a value that is invalid for the mode.
    """
    if not among:
        raise NothingSelected("no pod is selected")
    there = len(among)
    match mode:
        case "all":
            count = there
        case "one":
            count = 1
        case "fixed":
            count = min(there, int(_number(mode, value, math.inf)))
        case "fixed-percent":
            count = math.floor(there * _number(mode, value, 100) / 100)
        case "random-max-percent":
            count = math.floor(there * chance.whole(0, int(_number(mode, value, 100))) / 100)
        case _:
            raise NothingSelected(f"mode {mode!r} is not supported")
    if not count:
        raise NothingSelected(f"{mode} {value} of {len(among)} is none")
    return list(among) if count >= len(among) else chance.sample(among, count)


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
"""Kinds that act on whole pods; all others act on containers."""


class Target(NamedTuple):
    """Target of a chaos object: a pod or one of its containers, under the key of the selector that
    chose it, as a record names it.
    """

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
        """Read a record's target. A malformed name gives a target that does not exist."""
        namespace, pod, container, *_ = f"{record['id']}//".split("/")
        return cls(record["selectorKey"], namespace, pod, container)


def targets_of(
    chaos: Obj, pods: Mapping[Ref, Obj], nodes: Iterable[Obj], chance: Stream
) -> list[Target]:
    """Select the targets of a chaos object; called once for each object."""
    found = []
    if place := OUTSIDE_CLUSTER.get(chaos["kind"]):
        raise NothingSelected(f"its target is {place}, which the simulation cannot act on")
    kind, spec = chaos["kind"], chaos["spec"]
    selections = [(SELF, spec)]
    if kind == "NetworkChaos" and spec.get("target"):
        selections.append((TARGET, spec["target"]))
    # an empty container name means the whole pod; the default is the first container
    on_pods = kind in POD_LEVEL_KINDS or (kind == "PodChaos" and spec["action"] != "container-kill")
    wanted = spec.get("containerNames")
    for key, selection in selections:
        namespace, nodes = chaos["metadata"]["namespace"], list(nodes)
        among = selected(selection.get("selector") or {}, namespace, pods, nodes)
        try:
            chosen_pods = chosen(
                selection.get("mode", ""), selection.get("value", ""), among, chance
            )
        except NothingSelected as reason:
            raise NothingSelected(f"{'target: ' if key == TARGET else ''}{reason}") from None
        for pod in chosen_pods:
            names = [""]
            if not on_pods:
                there = [each["name"] for each in pod["spec"]["containers"]]
                names = [each for each in there if each in wanted] if wanted else there[:1]
            place, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
            found += [Target(key, place, name, each) for each in names]
    return found


@dataclass(frozen=True, slots=True)
class TargetPending:
    """Result of an effect that is not complete, with the reason. The daemon repeats the call when
    the target has changed.
    """

    reason: str = ""


@dataclass(frozen=True, slots=True)
class TargetGone:
    """Result of an effect whose target no longer exists."""


TARGET_GONE = TargetGone()


class Effect(Protocol):
    """Effect of chaos on one target.

    A pod that is None has vanished, or another pod has its name.
    """

    async def inject(
        self, chaos: Obj, target: Target, pod: Obj | None
    ) -> TargetPending | TargetGone | None:
        """Do what is left to do; None if that is all. Called repeatedly until the effect is
        observed.
        """

    def unseen(self, chaos: Obj, target: Target) -> str:
        """Return the reason for which the effect cannot be observed yet; empty if it can. Called
        after all targets were injected.
        """

    async def recover(
        self, chaos: Obj, target: Target, pod: Obj | None
    ) -> TargetPending | TargetGone | None:
        """Undo the effect on this target and forget it, even if it was never injected. The daemon
        repeats the call while the result is TargetPending.
        """

    def forget(self, chaos: Obj) -> None:
        """Forget a deleted object, perhaps without recovery: its finalizer may have been removed by
        hand.
        """
