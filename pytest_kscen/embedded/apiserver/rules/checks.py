"""Validators that all rules share.

A validator yields one `Cause` for each fault of the value at a path, in the order and with the
words of the real API server. It must not change the value. The second half shows values as Go's
structs print them, for messages that quote a whole struct.
"""

from __future__ import annotations

import difflib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj


Causes: TypeAlias = Iterator[Cause]
Validator: TypeAlias = Callable[[str, Any], Iterable[Cause]]
Key = TypeVar("Key")
Function = TypeVar("Function", bound=Callable[..., Any])

NOT_NEGATIVE = "must be greater than or equal to 0"
IMMUTABLE = "field is immutable"
MAX_ANNOTATIONS_BYTES = 256 * 1024
MAX_INT32 = 2**31 - 1
MAX_PORT = 65535
PROTOCOLS = ("SCTP", "TCP", "UDP")
CONDITION_STATUSES = ("False", "True", "Unknown")


def registered(table: dict[Key, Function], *keys: Key) -> Callable[[Function], Function]:
    """Return a decorator that enters a function into a table under these keys.

    The order of the table is that of the definitions, and so is the order of the causes.
    """

    def register(function: Function) -> Function:
        table.update(dict.fromkeys(keys, function))
        return function

    return register


def invalid_value_omitted(path: str, detail: str) -> Cause:
    """Return the cause "Invalid value" without the value, which is too large or too secret for a
    message.
    """
    return Cause(path, f"Invalid value: {detail}")


def member_path(path: str, name: str) -> str:
    """Join a path and a member's name. An empty path means the object itself."""
    return f"{path}.{name}" if path else name


def validate_name(path: str, value: str, check: names.Check) -> Causes:
    for message in check(value):
        yield Cause.invalid(path, value, message)


def validate_required_name(path: str, value: str | None, check: names.Check) -> Causes:
    if value:
        yield from validate_name(path, value, check)
    else:
        yield Cause.required(path)


def validate_enum(path: str, value: Any, allowed: Sequence[str]) -> Causes:
    if value not in allowed:
        yield Cause.unsupported(path, value, allowed)


def validate_required_enum(path: str, value: str | None, allowed: Sequence[str]) -> Causes:
    if not value:
        yield Cause.required(path)
    elif value not in allowed:
        yield Cause.unsupported(path, value, allowed)


def validate_nonnegative(path: str, value: int | None) -> Causes:
    if value is not None and value < 0:
        yield Cause.invalid(path, value, NOT_NEGATIVE)


def validate_nonnegative_fields(path: str, obj: Obj, fields: Iterable[str]) -> Causes:
    """Yield a cause for each of these fields that is negative; absent fields count as 0."""
    for field in fields:
        if obj.get(field, 0) < 0:
            yield Cause.invalid(member_path(path, field), obj[field], NOT_NEGATIVE)


def validate_fields_at_most(
    path: str, obj: Obj, fields: Iterable[str], whole: str, message: str
) -> Causes:
    """Yield a cause for each of these fields that exceeds the field `whole` of the same object.

    Absent fields count as 0.
    """
    for field in fields:
        if obj.get(field, 0) > obj.get(whole, 0):
            yield Cause.invalid(member_path(path, field), obj.get(field, 0), message)


def validate_positive(path: str, value: int) -> Causes:
    if value <= 0:
        yield Cause.invalid(path, value, "must be greater than zero")


def validate_range(path: str, value: int | None, low: int, high: int) -> Causes:
    if value is not None and not low <= value <= high:
        yield Cause.invalid(path, value, names.within(low, high))


def validate_port_number(path: str, value: int) -> Causes:
    yield from validate_range(path, value, 1, MAX_PORT)


def validate_port(path: str, value: int | str) -> Causes:
    """Yield the causes for a port given by number or by name."""
    if isinstance(value, str):
        yield from validate_name(path, value, names.port_name)
    else:
        yield from validate_port_number(path, value)


def validate_immutable(path: str, new: Any, old: Any) -> Causes:
    if new is not old and new != old:
        yield Cause.invalid(path, new, IMMUTABLE)


def validate_unique(path: str, values: Iterable[Any], field: str = "") -> Causes:
    """Yield a cause for each repeated value of a list. `field` is appended to the path when the
    values are one field of each item.
    """
    seen = []
    for index, value in enumerate(values):
        if value in seen:
            yield Cause.duplicate(f"{path}[{index}]{'.' if field else ''}{field}", value)
        seen.append(value)


def validate_int_or_percent(path: str, value: int | str) -> Causes:
    if isinstance(value, str):
        yield from validate_name(path, value, names.percent)
    else:
        yield from validate_nonnegative(path, value)


def percent_of(value: int | str | None) -> int | None:
    """Return the number of a well-formed percentage such as `25%`, otherwise None."""
    return int(value[:-1]) if isinstance(value, str) and not names.percent(value) else None


def int_or_percent_value(value: int | str | None) -> int:
    """Return the number of an IntOrString: the integer, the number of percents, or 0 for malformed
    text.
    """
    if isinstance(value, int):
        return value
    return percent_of(value) or 0


def validate_at_most_100_percent(path: str, value: int | str) -> Causes:
    if (percent_of(value) or 0) > 100:  # noqa: PLR2004
        yield Cause.invalid(path, value, "must not be greater than 100%")


def validate_labels(path: str, given: Mapping[str, str] | None) -> Causes:
    for key, value in (given or {}).items():
        yield from validate_name(path, key, names.label_key)
        yield from validate_name(path, value, names.label_value)


def validate_annotations(path: str, given: Mapping[str, str] | None) -> Causes:
    size = 0
    for key, value in (given or {}).items():
        for message in names.label_key(key.lower()):
            yield Cause.invalid(path, key, message)
        size += len(key.encode()) + len(value.encode())
    if size > MAX_ANNOTATIONS_BYTES:
        yield Cause.too_long(path, MAX_ANNOTATIONS_BYTES)


def validate_label_selector(path: str, given: Obj | None) -> Causes:
    """Yield the causes for a LabelSelector: malformed labels, unknown operators, and values where
    the operator takes none. None is valid.
    """
    if given:
        yield from validate_labels(f"{path}.matchLabels", given.get("matchLabels"))
        for index, part in enumerate(given.get("matchExpressions") or ()):
            here = f"{path}.matchExpressions[{index}]"
            operator, values = part["operator"], part.get("values") or ()
            if operator in {"In", "NotIn"}:
                if not values:
                    yield Cause.required(
                        f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'"
                    )
            elif operator in {"Exists", "DoesNotExist"}:
                if values:
                    yield Cause.forbidden(
                        f"{here}.values",
                        "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                    )
            else:
                yield Cause.invalid(f"{here}.operator", operator, "not a valid selector operator")
            yield from validate_name(f"{here}.key", part["key"], names.label_key)
            for number, value in enumerate(values):
                yield from validate_name(f"{here}.values[{number}]", value, names.label_value)


def sorted_labels(given: Mapping[str, str] | None) -> dict[str, str] | None:
    """Return labels sorted by key, the order in which Go prints maps."""
    return None if given is None else dict(sorted(given.items()))


def selector_in_go_order(given: Obj | None) -> Obj | None:
    """Return a LabelSelector with its fields and labels in the order in which Go prints them."""
    if not given or "matchLabels" not in given:
        return given
    return {
        "matchLabels": sorted_labels(given["matchLabels"]),
        **{name: given[name] for name in given if name != "matchLabels"},
    }


def validate_selector_unchanged(new: Obj, old: Obj) -> Causes:
    """Yield a cause when an update changes `spec.selector`, which is immutable in all workloads."""
    selector = new["spec"].get("selector")
    if selector != old["spec"].get("selector"):
        yield Cause.invalid("spec.selector", selector_in_go_order(selector), IMMUTABLE)


def is_empty_selector(given: Obj | None) -> bool:
    """Report whether a LabelSelector has no requirements, and therefore matches every object."""
    return not given or not (given.get("matchLabels") or given.get("matchExpressions"))


def selector_matches(given: Obj | None, own: Mapping[str, str] | None) -> bool | None:
    """Report whether a LabelSelector matches labels.

    None means that the selector is malformed and cannot be evaluated. A selector of None matches
    nothing.
    """
    if given is None:
        return False
    if any(True for _ in validate_label_selector("", given)):
        return None
    own = own or {}
    return all(
        own.get(key) == value for key, value in (given.get("matchLabels") or {}).items()
    ) and all(
        _requirement_matches(part["operator"], own.get(part["key"]), part.get("values") or ())
        for part in given.get("matchExpressions") or ()
    )


def _requirement_matches(operator: str, value: str | None, values: Sequence[str]) -> bool:
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    return (value is not None and value in values) is (operator == "In")


def validate_conditions(path: str, given: Sequence[Obj] | None) -> Causes:
    """Yield the causes for a list of `metav1.Condition`: repeated types, malformed types and
    reasons, unknown statuses, missing times.
    """
    yield from validate_unique(path, [one.get("type") for one in given or ()], "type")
    for index, one in enumerate(given or ()):
        here = f"{path}[{index}]"
        yield from validate_name(f"{here}.type", one.get("type", ""), names.label_key)
        yield from validate_enum(f"{here}.status", one.get("status", ""), CONDITION_STATUSES)
        if one.get("observedGeneration", 0) < 0:
            yield Cause.invalid(
                f"{here}.observedGeneration",
                one["observedGeneration"],
                "must be greater than or equal to zero",
            )
        if not one.get("lastTransitionTime"):
            yield Cause.required(f"{here}.lastTransitionTime")
        yield from validate_required_name(
            f"{here}.reason", one.get("reason"), names.condition_reason
        )


GoStruct: TypeAlias = dict[str, Any]
"""Field names of a Go struct in declaration order, each with the value that Go prints when it is
unset.
"""

GO_TO_API_NAMES = {
    "APIGroup": "apiGroup",
    "APIVersion": "apiVersion",
    "CIDRs": "cidrs",
    "IP": "ip",
    "NodeID": "nodeID",
    "UID": "uid",
}
GO_NODE_ADDRESS: GoStruct = {"Type": "", "Address": ""}
GO_DISRUPTION_BUDGET_SPEC: GoStruct = {
    "MinAvailable": None,
    "Selector": None,
    "MaxUnavailable": None,
    "UnhealthyPodEvictionPolicy": None,
}
GO_POD_RESOURCE_CLAIM: GoStruct = {
    "Name": "",
    "ResourceClaimName": None,
    "ResourceClaimTemplateName": None,
}
GO_CSI_NODE_DRIVER: GoStruct = {"Name": "", "NodeID": "", "TopologyKeys": None, "Allocatable": None}
GO_FLOW_DISTINGUISHER: GoStruct = {"Type": ""}
GO_PARENT_REFERENCE: GoStruct = {"Group": "", "Resource": "", "Namespace": "", "Name": ""}
GO_ROLLING_PARTITION: GoStruct = {"Partition": 0, "MaxUnavailable": None}
GO_POD_IP: GoStruct = {"IP": ""}
GO_PROFILE: GoStruct = {"Type": "", "LocalhostProfile": None}
GO_SERVICE_CIDR_SPEC: GoStruct = {"CIDRs": None}
GO_OBJECT_REFERENCE: GoStruct = {
    "Kind": "",
    "Namespace": "",
    "Name": "",
    "UID": "",
    "APIVersion": "",
    "ResourceVersion": "",
    "FieldPath": "",
}
GO_ROLE_REF: GoStruct = {"APIGroup": "", "Kind": "", "Name": ""}
GO_ROLLING_UPDATE: GoStruct = {"MaxUnavailable": 0, "MaxSurge": 0}
GO_STRATEGY: GoStruct = {"Type": "", "RollingUpdate": None}
GO_TAINT: GoStruct = {"Key": "", "Value": "", "Effect": "", "TimeAdded": None}
GO_TOLERATION: GoStruct = {
    "Key": "",
    "Operator": "",
    "Value": "",
    "Effect": "",
    "TolerationSeconds": None,
}
GO_UNCOUNTED_PODS: GoStruct = {"Succeeded": None, "Failed": None}


def as_go_struct(struct: GoStruct, given: Obj) -> Obj:
    """Return an API object as Go prints its internal struct: Go's field names, in Go's order, with
    unset fields included.

    Some messages of the real server quote such a struct.
    """
    return {
        name: given.get(GO_TO_API_NAMES.get(name, name[0].lower() + name[1:]), unset)
        for name, unset in struct.items()
    }


def strategy_as_go_struct(rolling: GoStruct, given: Obj) -> Obj:
    """Return an update strategy as Go prints it, with its `rollingUpdate` as a struct of the given
    form.
    """
    shown = as_go_struct(GO_STRATEGY, given)
    if "rollingUpdate" in given:
        shown["RollingUpdate"] = as_go_struct(rolling, given["rollingUpdate"])
    return shown


def unified_diff(old: Any, new: Any) -> str:
    """Return a line diff of two states as indented JSON, which messages about immutable fields
    append.
    """
    before, after = (json.dumps(state, indent=1).splitlines(keepends=True) for state in (old, new))
    lines = difflib.unified_diff(before, after, n=3)
    return "".join(itertools.islice(lines, 2, None))  # the first two lines name files
