"""Label and field selectors in the API's syntax, parsed once and evaluated often.

Parse errors are ValueErrors in Kubernetes' words.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kscen.objects.errors import quoted
from pytest_kscen.objects.names import label_key, label_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_kscen.objects.resources import Obj

TOKEN = re.compile(r"[=!]=|[=!(),<>]|[^=!(),<> \t\r\n]+")
SYMBOLS = frozenset(["=", "==", "!=", "!", "(", ")", ",", "<", ">"])
OPERATORS = {
    "in": "In",
    "notin": "NotIn",
    "=": "In",
    "==": "In",
    "!=": "NotIn",
    ">": "Gt",
    "<": "Lt",
}
END = ""


@dataclass(frozen=True, slots=True)
class Requirement:
    """Requirement of a label selector. Operators are written as in matchExpressions, with Gt and
    Lt.
    """

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "Exists":
                return self.key in labels
            case "DoesNotExist":
                return self.key not in labels
            case "NotIn":
                return self.key not in labels or labels[self.key] not in self.values
            case _:
                label = labels.get(self.key, "")
                if not _is_whole(label):
                    return False
                bound = int(next(iter(self.values)))
                return int(label) > bound if self.operator == "Gt" else int(label) < bound


@functools.lru_cache(maxsize=512)
def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Parse a label selector such as `app=a,tier in (x, y),!old` into its requirements, sorted by
    key. Raises ValueError in Kubernetes' words.
    """
    tokens = _TokenReader(text)
    parsed: list[Requirement] = []
    while tokens.next != END:
        if tokens.next in SYMBOLS - {"!"}:
            raise ValueError(f"found '{tokens.next}', expected: !, identifier, or 'end of string'")
        try:
            parsed.append(_requirement(tokens))
        except ValueError as error:
            raise ValueError(f"unable to parse requirement: {error}") from None
        separator = tokens.take()
        if separator not in {",", END}:
            raise ValueError(f"found '{separator}', expected: ',' or 'end of string'")
        if separator == "," and (tokens.next == END or tokens.next in SYMBOLS - {"!"}):
            raise ValueError(f"found '{tokens.next}', expected: identifier after ','")
    return tuple(sorted(parsed, key=lambda requirement: requirement.key))


class _TokenReader:
    def __init__(self, text: str) -> None:
        self._left = TOKEN.findall(text)[::-1]

    @property
    def next(self) -> str:
        return str(self._left[-1]) if self._left else END

    def take(self) -> str:
        return str(self._left.pop()) if self._left else END


def _requirement(tokens: _TokenReader) -> Requirement:
    negated = tokens.next == "!"
    if negated:
        tokens.take()
    key = tokens.take()
    if key == END or key in SYMBOLS:
        raise ValueError(f"found '{key}', expected: identifier")
    if wrong := label_key(key):
        raise ValueError(f"<nil>: Invalid value: {quoted(key)}: {'; '.join(wrong)}")
    if negated:
        return Requirement(key, "DoesNotExist")
    if tokens.next in {",", END}:
        return Requirement(key, "Exists")
    word = tokens.take()
    if word not in OPERATORS:
        raise ValueError(f"found '{word}', expected: in, notin, =, ==, !=, gt, lt")
    if word in {"in", "notin"}:
        values = sorted(_listed(tokens))
    else:
        values = ["" if tokens.next in {",", END} else tokens.take()]
        if values[0] in SYMBOLS:
            raise ValueError(f"found '{values[0]}', expected: identifier")
    if wrong_values := list(_wrong_values(key, OPERATORS[word], values)):
        raise ValueError(
            wrong_values[0] if len(wrong_values) == 1 else f"[{', '.join(wrong_values)}]"
        )
    return Requirement(key, OPERATORS[word], frozenset(values))


def _listed(tokens: _TokenReader) -> dict[str, None]:
    """Return the values in parentheses without repetitions. An empty part between commas is an
    empty value.
    """
    if (opened := tokens.take()) != "(":
        raise ValueError(f"found '{opened}' expected: '('")
    if tokens.next == END or tokens.next in SYMBOLS - {",", ")"}:
        raise ValueError(f"found '{tokens.next}', expected: ',', ')' or identifier")
    values: dict[str, None] = {}
    after_comma = True
    while (word := tokens.take()) != ")":
        if word == ",":
            if after_comma:
                values[""] = None
            after_comma = True
        elif word == END or word in SYMBOLS:
            raise ValueError(f"found '{word}', expected: ',', or identifier")
        else:
            values[word] = None
            after_comma = False
            if tokens.next not in {",", ")"}:
                raise ValueError(f"found '{tokens.next}', expected: ',' or ')'")
    if after_comma:
        values[""] = None
    return values


def _wrong_values(key: str, operator: str, values: Iterable[str]) -> Iterable[str]:
    if operator in {"Gt", "Lt"}:
        for number, value in enumerate(values):
            if not _is_whole(value):
                yield (
                    f"values[{number}]: Invalid value: {quoted(value)}: for 'Gt', 'Lt' "
                    "operators, the value must be an integer"
                )
    for number, value in enumerate(values):
        if wrong := label_value(value):
            yield f"values[{number}][{key}]: Invalid value: {quoted(value)}: {'; '.join(wrong)}"


def _is_whole(text: str) -> bool:
    return re.fullmatch("[+-]?[0-9]+", text) is not None


def matches_selector(selector: Obj | None, labels: Mapping[str, str] | None) -> bool:
    """Evaluate a LabelSelector object against labels. None matches nothing, an empty selector
    everything; all requirements must hold.
    """
    if selector is None:
        return False
    return all(requirement.holds(labels or {}) for requirement in requirements_of(selector))


def requirements_of(selector: Obj) -> list[Requirement]:
    equal = [
        Requirement(key, "In", frozenset([value]))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    return equal + [
        Requirement(part["key"], part["operator"], frozenset(part.get("values") or ()))
        for part in selector.get("matchExpressions") or ()
    ]


def selector_text(selector: Obj) -> str:
    shapes = {
        "Exists": "{key}",
        "DoesNotExist": "!{key}",
        "NotIn": "{key} notin ({values})",
        "In": "{key} in ({values})",
    }
    parts = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for part in selector.get("matchExpressions") or ():
        values = ",".join(sorted(part.get("values") or ()))
        parts.append((part["key"], shapes[part["operator"]].format(key=part["key"], values=values)))
    return ",".join(text for _, text in sorted(parts, key=lambda part: part[0]))


class FieldTerm(NamedTuple):
    field: str
    equal: bool
    value: str


@functools.lru_cache(maxsize=256)
def parse_fields(text: str) -> tuple[FieldTerm, ...]:
    """Parse a field selector such as `metadata.name=a,spec.nodeName!=b`. A backslash escapes a
    comma, an equals sign or itself.
    """
    terms = []
    for part in sorted(re.findall(r"(?:\\.|[^,\\]|\\$)+", text)):
        found = re.match(r"(.*?)(!=|==|=)(.*)", part, re.DOTALL)
        if not found:
            raise ValueError(f"invalid selector: '{text}'; can't understand '{part}'")
        field, operator, value = found.groups()
        unescaped = re.sub(r"\\(.?)|=", _unescaped, value, flags=re.DOTALL)
        terms.append(FieldTerm(field, operator != "!=", unescaped))
    return tuple(terms)


def _unescaped(found: re.Match[str]) -> str:
    if found[0] == "=":
        raise ValueError(f"invalid field selector: unescaped character in value: {ord('=')}")
    if found[1] not in {"\\", ",", "="}:
        raise ValueError(f"invalid field selector: invalid escape sequence: {found[0]}")
    return found[1]


def field_at(obj: Obj, path: str) -> Any:
    value: Any = obj
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def with_value(obj: Obj, path: str, value: Any) -> Obj:
    """Return a copy with another value at a dotted path. Other parts are shared with
    the original; missing objects on the path are created.
    """
    first, _, rest = path.partition(".")
    return {**obj, first: with_value(obj.get(first) or {}, rest, value) if rest else value}


def predicate(
    labels: str, fields: Iterable[tuple[Callable[[Obj], str], bool, str]] = ()
) -> Callable[[Obj], bool] | None:
    """Return the filter of a list or a watch with these selectors; None if it passes everything.

    `fields` are triples: a function that reads the field, whether it must be equal, and the value.
    """
    wanted, terms = parse_labels(labels), tuple(fields)
    if not wanted and not terms:
        return None

    def accepts(obj: Obj) -> bool:
        for read, equal, value in terms:
            if (read(obj) == value) is not equal:
                return False
        if wanted:
            own = obj["metadata"].get("labels") or {}
            for part in wanted:
                if not part.holds(own):
                    return False
        return True

    return accepts
