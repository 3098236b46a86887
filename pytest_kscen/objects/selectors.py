"""Label and field selectors: parsed once, then asked often."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kscen.objects.resources import Obj

_SET = re.compile(r"^(?P<key>[^\s!=<>()]+)\s+(?P<op>in|notin)\s*\((?P<values>[^)]*)\)$")
_COMPARISON = re.compile(r"^(?P<key>[^\s!=<>()]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^\s!=<>(),]*)$")
_PRESENCE = re.compile(r"^(?P<not>!?)\s*(?P<key>[^\s!=<>()]+)$")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One part of a label selector. Operators are spelt as in matchExpressions."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        match self.operator:
            case "Exists":
                return self.key in labels
            case "DoesNotExist":
                return self.key not in labels
            case "In":
                return labels.get(self.key) in self.values
            case _:
                return self.key not in labels or labels[self.key] not in self.values


@functools.lru_cache(maxsize=4096)
def parse_labels(text: str) -> tuple[Requirement, ...]:
    """A selector on the wire: `app=a,tier in (x, y),!old`."""
    parts = [part.strip() for part in re.split(r",(?![^()]*\))", text)] if text.strip() else []
    return tuple(_requirement(part, text) for part in parts)


def _requirement(part: str, text: str) -> Requirement:
    if found := _SET.match(part):
        operator = "In" if found["op"] == "in" else "NotIn"
        return Requirement(found["key"], operator, frozenset(value.strip() for value in found["values"].split(",")))
    if found := _COMPARISON.match(part):
        return Requirement(found["key"], "NotIn" if found["op"] == "!=" else "In", frozenset([found["value"]]))
    if found := _PRESENCE.match(part):
        return Requirement(found["key"], "DoesNotExist" if found["not"] else "Exists")
    raise ValueError(f"unable to parse requirement: {part!r} in the selector {text!r}")


def matches_labels(text: str, labels: Mapping[str, str] | None) -> bool:
    return all(requirement.holds(labels or {}) for requirement in parse_labels(text))


def matches_selector(selector: Obj | None, labels: Mapping[str, str] | None) -> bool:
    """A LabelSelector object (matchLabels, matchExpressions); none matches nothing, an empty one everything."""
    if selector is None:
        return False
    return all(requirement.holds(labels or {}) for requirement in requirements_of(selector))


def requirements_of(selector: Obj) -> list[Requirement]:
    equal = [Requirement(key, "In", frozenset([value])) for key, value in (selector.get("matchLabels") or {}).items()]
    return equal + [
        Requirement(part["key"], part["operator"], frozenset(part.get("values") or ()))
        for part in selector.get("matchExpressions") or ()
    ]


@functools.lru_cache(maxsize=1024)
def parse_fields(text: str) -> tuple[tuple[str, bool, str], ...]:
    """`metadata.name=a,spec.nodeName!=b` as (path, equal, value)."""
    terms = []
    for part in filter(None, text.split(",")):
        path, operator, value = re.split(r"(!=|==|=)", part, maxsplit=1) if "=" in part else (part, "", "")
        if not operator:
            raise ValueError(f"invalid selector: {text!r}; can't understand {part!r}")
        terms.append((path.strip(), operator != "!=", value.strip()))
    return tuple(terms)


def field_at(obj: Obj, path: str) -> Any:
    """The value at a dotted path, or None."""
    value: Any = obj
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def predicate(labels: str, fields: str) -> Callable[[Obj], bool] | None:
    """What a list or a watch with these selectors lets through; None lets everything."""
    wanted, terms = parse_labels(labels), parse_fields(fields)
    if not wanted and not terms:
        return None

    def lets_through(obj: Obj) -> bool:
        own = obj["metadata"].get("labels") or {}
        return all(part.holds(own) for part in wanted) and all(
            (_text(field_at(obj, path)) == value) is equal for path, equal, value in terms
        )

    return lets_through


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
