"""What a part of a configuration may look like: small judges, put together into larger ones.

A judge looks at a value and its place and yields what is wrong, in words for people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_kscen.objects.arguments import nearest, seconds_of_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Judge: TypeAlias = Callable[[Any, str], Iterable[str]]


def anything(_: Any, __: str) -> Iterator[str]:
    yield from ()


def text(value: Any, place: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{place}: {value!r} is no text"


def filled(value: Any, place: str) -> Iterator[str]:
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        yield f"{place}: {value!r} is no name"


def truth(value: Any, place: str) -> Iterator[str]:
    if not isinstance(value, bool):
        yield f"{place}: {value!r} is neither true nor false"


def duration(value: Any, place: str) -> Iterator[str]:
    try:
        seconds_of_text(value)
    except (ValueError, TypeError):
        yield f"{place}: {value!r} is no duration: write a number and a unit, as in '5s'"


def whole(low: int, high: int | None = None) -> Judge:
    """A whole number within bounds, both included."""

    def judge(value: Any, place: str) -> Iterator[str]:
        if not isinstance(value, int) or isinstance(value, bool):
            yield f"{place}: {value!r} is no whole number"
        elif value < low or (high is not None and value > high):
            yield f"{place}: {value} is not from {low} " + (
                f"to {high}" if high is not None else "upwards"
            )

    return judge


def one_of(*words: str) -> Judge:
    def judge(value: Any, place: str) -> Iterator[str]:
        if value not in words:
            yield f"{place}: {value!r} is none of {', '.join(words)}{nearest(str(value), words)}"

    return judge


def several(judge: Judge) -> Judge:
    """A list."""

    def judge_all(value: Any, place: str) -> Iterator[str]:
        if not isinstance(value, list):
            yield f"{place}: {value!r} is no list"
            return
        for number, item in enumerate(value):
            yield from judge(item, f"{place}[{number}]")

    return judge_all


def fields(known: Mapping[str, Judge], *, needed: Iterable[str] = ()) -> Judge:
    """An object with these fields. One that is null is one that is not there."""
    needed = tuple(needed)

    def judge(value: Any, place: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{place or 'the configuration'}: {value!r} is no object with fields"
            return
        for name, part in value.items():
            where = f"{place}.{name}" if place else name
            if name not in known:
                yield f"{where}: there is no such field{nearest(str(name), known)}"
            elif part is not None:
                yield from known[name](part, where)
        for name in needed:
            if value.get(name) is None:
                yield f"{place}.{name} is missing" if place else f"{name} is missing"

    return judge


# What the default plugins can be told in pluginConfig. A plugin of somebody's own may be told
# anything.


TYPE = {"apiVersion": text, "kind": text}
STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")


def _shape(value: Any, place: str) -> Iterator[str]:
    """The points of a line."""
    point = fields(
        {"utilization": whole(0, 100), "score": whole(0, 10)}, needed=("utilization", "score")
    )
    wrong = list(several(point)(value, place))
    yield from wrong
    if not wrong and not value:
        yield f"{place}: at least one point is needed"
    for number in range(1, len(value) if not wrong else 0):
        if value[number - 1]["utilization"] >= value[number]["utilization"]:
            yield f"{place}[{number}].utilization: the points have to be in increasing order"


def _strategy(value: Any, place: str) -> Iterator[str]:
    resource = fields({"name": filled, "weight": whole(0, 100)}, needed=("name",))
    ratio = fields({"shape": _shape}, needed=("shape",))
    known = {
        "type": one_of(*STRATEGIES),
        "resources": several(resource),
        "requestedToCapacityRatio": ratio,
    }
    wrong = list(fields(known)(value, place))
    yield from wrong
    if not wrong:
        wants = value.get("type") == "RequestedToCapacityRatio"
        if wants and not value.get("requestedToCapacityRatio"):
            yield (
                f"{place}.requestedToCapacityRatio is missing: the type "
                "RequestedToCapacityRatio needs it"
            )
        if not wants and value.get("requestedToCapacityRatio"):
            yield f"{place}.requestedToCapacityRatio: only the type RequestedToCapacityRatio has it"


def _balanced(value: Any, place: str) -> Iterator[str]:
    resource = fields({"name": filled, "weight": whole(0, 1)}, needed=("name",))
    yield from fields({**TYPE, "resources": several(resource)})(value, place)


def _preemption(value: Any, place: str) -> Iterator[str]:
    percentage, absolute = "minCandidateNodesPercentage", "minCandidateNodesAbsolute"
    yield from fields({**TYPE, percentage: whole(0, 100), absolute: whole(0)})(value, place)
    if isinstance(value, dict) and value.get(percentage) == 0 and value.get(absolute) == 0:
        yield f"{place}: {percentage} and {absolute} cannot both be 0"


def _spread(value: Any, place: str) -> Iterator[str]:
    constraint = fields(
        {
            "maxSkew": whole(1),
            "topologyKey": filled,
            "whenUnsatisfiable": one_of("DoNotSchedule", "ScheduleAnyway"),
            "minDomains": whole(1),
            "nodeAffinityPolicy": one_of("Honor", "Ignore"),
            "nodeTaintsPolicy": one_of("Honor", "Ignore"),
            "matchLabelKeys": several(text),
        },
        needed=("maxSkew", "topologyKey", "whenUnsatisfiable"),
    )
    known = {
        **TYPE,
        "defaultConstraints": several(constraint),
        "defaultingType": one_of("System", "List"),
    }
    wrong = list(fields(known)(value, place))
    yield from wrong
    if (
        not wrong
        and value.get("defaultConstraints")
        and value.get("defaultingType", "System") == "System"
    ):
        yield f"{place}.defaultingType: defaultConstraints need defaultingType: List"


def _affinity(value: Any, place: str) -> Iterator[str]:
    requirement = fields(
        {
            "key": filled,
            "operator": one_of("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
            "values": several(text),
        },
        needed=("key", "operator"),
    )
    term = fields({"matchExpressions": several(requirement), "matchFields": several(requirement)})
    required = fields({"nodeSelectorTerms": several(term)}, needed=("nodeSelectorTerms",))
    preferred = several(
        fields({"weight": whole(1, 100), "preference": term}, needed=("weight", "preference"))
    )
    known = {
        "requiredDuringSchedulingIgnoredDuringExecution": required,
        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
    }
    yield from fields(known)(value, place)


ARGUMENTS: dict[str, Judge] = {
    "DefaultPreemption": _preemption,
    "InterPodAffinity": fields(
        {
            **TYPE,
            "hardPodAffinityWeight": whole(0, 100),
            "ignorePreferredTermsOfExistingPods": truth,
        },
    ),
    "NodeAffinity": fields({**TYPE, "addedAffinity": _affinity}),
    "NodeResourcesBalancedAllocation": _balanced,
    "NodeResourcesFit": fields(
        {
            **TYPE,
            "ignoredResources": several(filled),
            "ignoredResourceGroups": several(filled),
            "scoringStrategy": _strategy,
        }
    ),
    "PodTopologySpread": _spread,
    "VolumeBinding": fields({**TYPE, "bindTimeoutSeconds": whole(0)}),
    "DynamicResources": fields({**TYPE, "filterTimeout": duration, "bindingTimeout": duration}),
}
WITHOUT = fields(TYPE)


def judge_arguments(name: str, value: Any, place: str, *, own: bool) -> Iterator[str]:
    """The arguments of one plugin; `own` if it is none of the default ones."""
    judge = anything if own else ARGUMENTS.get(name, WITHOUT)
    yield from judge(value, place)
