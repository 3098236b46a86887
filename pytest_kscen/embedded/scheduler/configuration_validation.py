"""Validators of configuration fields, combined into validators of whole objects.

A validator gets a value and its path and yields the mistakes as messages for users. Here is also
what the default plugins accept in pluginConfig.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_kscen.objects.arguments import nearest, seconds_of_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Validator: TypeAlias = Callable[[Any, str], Iterable[str]]


def anything(_: Any, __: str) -> Iterator[str]:
    yield from ()


def text(value: Any, place: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{place}: {value!r} is not a string"


def nonempty_text(value: Any, place: str) -> Iterator[str]:
    """Yield a mistake unless the value is a string with at least one character."""
    if not isinstance(value, str) or not value:
        yield f"{place}: {value!r} is not a non-empty string"


def boolean(value: Any, place: str) -> Iterator[str]:
    if not isinstance(value, bool):
        yield f"{place}: {value!r} is not true or false"


def duration(value: Any, place: str) -> Iterator[str]:
    try:
        seconds_of_text(value)
    except (ValueError, TypeError):
        yield f"{place}: {value!r} is not a duration: write a number and a unit, as in '5s'"


def integer(low: int, high: int | None = None) -> Validator:
    """Return a validator of whole numbers within bounds, both included; booleans are refused."""

    def judge(value: Any, place: str) -> Iterator[str]:
        if not isinstance(value, int) or isinstance(value, bool):
            yield f"{place}: {value!r} is not a whole number"
        elif value < low or (high is not None and value > high):
            yield f"{place}: {value} is not from {low} " + (
                f"to {high}" if high is not None else "upwards"
            )

    return judge


def one_of(*words: str) -> Validator:
    def judge(value: Any, place: str) -> Iterator[str]:
        if value not in words:
            yield f"{place}: {value!r} is not one of {', '.join(words)}{nearest(str(value), words)}"

    return judge


def list_of(judge: Validator) -> Validator:

    def judge_all(value: Any, place: str) -> Iterator[str]:
        if not isinstance(value, list):
            yield f"{place}: {value!r} is not a list"
            return
        for number, item in enumerate(value):
            yield from judge(item, f"{place}[{number}]")

    return judge_all


def object_with(known: Mapping[str, Validator], *, needed: Iterable[str] = ()) -> Validator:
    """Return a validator of objects with these fields. A null field counts as absent; unknown
    fields are mistakes, with a suggestion.
    """
    needed = tuple(needed)

    def judge(value: Any, place: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{place or 'the configuration'}: {value!r} is not an object"
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


TYPE_META = {"apiVersion": text, "kind": text}
STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")


def _validate_shape(value: Any, place: str) -> Iterator[str]:
    point = object_with(
        {"utilization": integer(0, 100), "score": integer(0, 10)}, needed=("utilization", "score")
    )
    wrong = list(list_of(point)(value, place))
    yield from wrong
    if not wrong and not value:
        yield f"{place}: at least one point is needed"
    for number in range(1, len(value) if not wrong else 0):
        if value[number - 1]["utilization"] >= value[number]["utilization"]:
            yield f"{place}[{number}].utilization: points must be in increasing order"


def _validate_strategy(value: Any, place: str) -> Iterator[str]:
    resource = object_with({"name": nonempty_text, "weight": integer(0, 100)}, needed=("name",))
    ratio = object_with({"shape": _validate_shape}, needed=("shape",))
    known = {
        "type": one_of(*STRATEGIES),
        "resources": list_of(resource),
        "requestedToCapacityRatio": ratio,
    }
    wrong = list(object_with(known)(value, place))
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


def _validate_preemption(value: Any, place: str) -> Iterator[str]:
    percentage, absolute = "minCandidateNodesPercentage", "minCandidateNodesAbsolute"
    yield from object_with({**TYPE_META, percentage: integer(0, 100), absolute: integer(0)})(
        value, place
    )
    if isinstance(value, dict) and value.get(percentage) == 0 and value.get(absolute) == 0:
        yield f"{place}: {percentage} and {absolute} cannot both be 0"


def _validate_spread(value: Any, place: str) -> Iterator[str]:
    constraint = object_with(
        {
            "maxSkew": integer(1),
            "topologyKey": nonempty_text,
            "whenUnsatisfiable": one_of("DoNotSchedule", "ScheduleAnyway"),
            "minDomains": integer(1),
            "nodeAffinityPolicy": one_of("Honor", "Ignore"),
            "nodeTaintsPolicy": one_of("Honor", "Ignore"),
            "matchLabelKeys": list_of(text),
        },
        needed=("maxSkew", "topologyKey", "whenUnsatisfiable"),
    )
    known = {
        **TYPE_META,
        "defaultConstraints": list_of(constraint),
        "defaultingType": one_of("System", "List"),
    }
    wrong = list(object_with(known)(value, place))
    yield from wrong
    if (
        not wrong
        and value.get("defaultConstraints")
        and value.get("defaultingType", "System") == "System"
    ):
        yield f"{place}.defaultingType: defaultConstraints need defaultingType: List"


_REQUIREMENT = object_with(
    {
        "key": nonempty_text,
        "operator": one_of("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
        "values": list_of(text),
    },
    needed=("key", "operator"),
)
_TERM = object_with(
    {"matchExpressions": list_of(_REQUIREMENT), "matchFields": list_of(_REQUIREMENT)}
)
_ADDED_AFFINITY = object_with(
    {
        "requiredDuringSchedulingIgnoredDuringExecution": object_with(
            {"nodeSelectorTerms": list_of(_TERM)}, needed=("nodeSelectorTerms",)
        ),
        "preferredDuringSchedulingIgnoredDuringExecution": list_of(
            object_with(
                {"weight": integer(1, 100), "preference": _TERM}, needed=("weight", "preference")
            )
        ),
    }
)
ARGUMENT_VALIDATORS: dict[str, Validator] = {
    "DefaultPreemption": _validate_preemption,
    "InterPodAffinity": object_with(
        {
            **TYPE_META,
            "hardPodAffinityWeight": integer(0, 100),
            "ignorePreferredTermsOfExistingPods": boolean,
        },
    ),
    "NodeAffinity": object_with({**TYPE_META, "addedAffinity": _ADDED_AFFINITY}),
    "NodeResourcesBalancedAllocation": object_with(
        {
            **TYPE_META,
            "resources": list_of(
                object_with({"name": nonempty_text, "weight": integer(0, 1)}, needed=("name",))
            ),
        }
    ),
    "NodeResourcesFit": object_with(
        {
            **TYPE_META,
            "ignoredResources": list_of(nonempty_text),
            "ignoredResourceGroups": list_of(nonempty_text),
            "scoringStrategy": _validate_strategy,
        }
    ),
    "PodTopologySpread": _validate_spread,
    "VolumeBinding": object_with({**TYPE_META, "bindTimeoutSeconds": integer(0)}),
    "DynamicResources": object_with(
        {**TYPE_META, "filterTimeout": duration, "bindingTimeout": duration}
    ),
}
NO_ARGUMENTS = object_with(TYPE_META)


def validate_arguments(name: str, value: Any, place: str, *, own: bool) -> Iterator[str]:
    """Yield the mistakes in a plugin's args. With `own`, the plugin is a user's and may have
    any.
    """
    judge = anything if own else ARGUMENT_VALIDATORS.get(name, NO_ARGUMENTS)
    yield from judge(value, place)
