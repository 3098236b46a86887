"""Names that definitions of one group compete for, and the conditions that tell how it went. Pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.schema.leaves import NOTHING
from pytest_kscen.objects.errors import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_kscen.objects.resources import Obj

ACCEPTED, ESTABLISHED, TERMINATING = "NamesAccepted", "Established", "Terminating"
SINGLE = {
    "plural": ("PluralConflict", "resources"),
    "singular": ("SingularConflict", "resources"),
    "kind": ("KindConflict", "kinds"),
    "listKind": ("ListKindConflict", "kinds"),
}


def condition_of(definition: Obj, type_: str) -> Obj:
    conditions = (definition.get("status") or NOTHING).get("conditions") or ()
    return next((condition for condition in conditions if condition["type"] == type_), NOTHING)


def is_true(definition: Obj, type_: str) -> bool:
    return bool(condition_of(definition, type_).get("status") == "True")


def with_condition(status: Obj, now: str, type_: str, *verdict: str) -> Obj:
    """A status with this condition in it (its status, reason and message); the time moves when the status does."""
    conditions = list(status.get("conditions") or ())
    value, reason, message = verdict
    new = {"type": type_, "status": value, "lastTransitionTime": now, "reason": reason, "message": message}
    for place, old in enumerate(conditions):
        if old["type"] == type_:
            since = old["lastTransitionTime"] if old["status"] == value else now
            conditions[place] = {**new, "lastTransitionTime": since}
            break
    else:
        conditions.append(new)
    return {**status, "conditions": conditions}


def after_naming(definition: Obj, others: Iterable[Obj], now: str) -> Obj:
    """The status of a definition once its wishes have met what the group's other definitions have already."""
    wanted, status = definition["spec"]["names"], definition.get("status") or NOTHING
    had = status.get("acceptedNames") or NOTHING
    if _same(wanted, had):
        return status
    taken = _taken([*others, definition])
    accepted, conflict = _accepted(wanted, had, taken)
    verdict = ("False", *conflict) if conflict else ("True", "NoConflicts", "no conflicts found")
    before = condition_of(definition, ACCEPTED)
    if _same(accepted, had) and (before.get("status"), before.get("reason"), before.get("message")) == verdict:
        return status
    status = with_condition({**status, "acceptedNames": accepted}, now, ACCEPTED, *verdict)
    if is_true(definition, ESTABLISHED):
        return status
    if conflict:
        old = condition_of(definition, ESTABLISHED)
        standing = (old["status"], old["reason"], old["message"]) if old else ("False", "NotAccepted", "not all names are accepted")
        return with_condition(status, now, ESTABLISHED, *standing)
    return with_condition(status, now, ESTABLISHED, "False", "Installing", "the initial names have been accepted")


def established(status: Obj, now: str) -> Obj:
    return with_condition(status, now, ESTABLISHED, "True", "InitialNamesAccepted", "the initial names have been accepted")


def _same(one: Obj, other: Obj) -> bool:
    return {name: value for name, value in one.items() if value} == {name: value for name, value in other.items() if value}


def _taken(definitions: Iterable[Obj]) -> dict[str, set[str]]:
    names = [(each.get("status") or NOTHING).get("acceptedNames") or NOTHING for each in definitions]
    return {"resources": {*_of(names, ("plural", "singular", "shortNames"))}, "kinds": {*_of(names, ("kind", "listKind"))}}


def _of(all_names: Iterable[Obj], fields: tuple[str, ...]) -> Iterator[str]:
    for names in all_names:
        for field in fields:
            value: Any = names.get(field)
            yield from value if isinstance(value, list) else [value] if value else ()


def _accepted(wanted: Obj, had: Obj, taken: dict[str, set[str]]) -> tuple[Obj, tuple[str, str] | None]:
    """The names that are had afterwards, and the last conflict."""
    accepted, conflict = dict(had), None
    for field in ("plural", "singular", "shortNames", "kind", "listKind"):
        if field == "shortNames":
            own = had.get(field) or ()
            refused = [name for name in wanted.get(field) or () if name not in own and name in taken["resources"]]
            reason = "ShortNamesConflict"
        else:
            reason, among = SINGLE[field]
            name = wanted[field]
            refused = [name] if name != had.get(field) and name in taken[among] else []
        if refused:
            conflict = reason, _in_use(refused)
        elif wanted.get(field):
            accepted[field] = wanted[field]
        else:
            accepted.pop(field, None)
    accepted.pop("categories", None)
    return {**accepted, **({"categories": wanted["categories"]} if wanted.get("categories") else {})}, conflict


def _in_use(names: list[str]) -> str:
    words = [f"{quoted(name)} is already in use" for name in names]
    return words[0] if len(words) == 1 else f"[{', '.join(words)}]"
