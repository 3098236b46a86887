"""Evaluation of declared guarantees, over the journal and the record of changes.

`DeclaredGuarantees` gets both in the order in which they were written, while a run is on or from
its archive, and returns one result per guarantee. A predicate that fails makes its result unknown,
and the run continues. Nothing here may call a user's function without the limits of its wrapper.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from pytest_kscen.cel import EvaluationError, Program, compile_expression
from pytest_kscen.cel.types import DYN
from pytest_kscen.judge.guarantees.declaration import ALWAYS, EVENTUALLY, SOMETIMES, Guarantee
from pytest_kscen.judge.verdict import INVALID, UNKNOWN, VALID, Finding
from pytest_kscen.objects.arguments import in_words
from pytest_kscen.objects.selectors import parse_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.journal import Change, Entry
    from pytest_kscen.objects.resources import Obj

    Predicate = Callable[[Obj], "bool | None"]

ObjectKey: TypeAlias = tuple[str, str]
"""Namespace and name."""

SHOWN = 5  # objects that a finding names
MISSING_FIELD = "no such key"


class PredicateFailed(Exception):
    """Report a predicate that cannot be used any further, with the reason."""


class CelPredicate:
    """CEL expression of one object. A missing field makes it None, any other error fails."""

    def __init__(self, expression: str) -> None:
        self._program: Program = compile_expression(expression, {"object": DYN})

    def __call__(self, obj: Obj) -> bool | None:
        try:
            value = self._program.value({"object": obj})
        except EvaluationError as error:
            if str(error).startswith(MISSING_FIELD):
                return None
            raise PredicateFailed(f"the predicate has no value: {error}") from None
        if not isinstance(value, bool):
            raise PredicateFailed(f"the predicate is {value!r}: it has to be true or false")
        return value


@dataclass(frozen=True, slots=True)
class GuaranteeResult:
    """Result of one guarantee in one run."""

    name: str
    verdict: str
    occasions: int
    """Number of times at which it could have been violated."""
    why: str = ""
    violations: tuple[str, ...] = ()
    """Objects that violated it, in the order of their first violations."""

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "verdict": self.verdict,
            "occasions": self.occasions,
            "why": self.why,
            "violations": list(self.violations),
        }


class Guarantees(Sequence[GuaranteeResult]):
    """Results of a run's guarantees, in the order of their declaration; by name too."""

    def __init__(self, results: Iterable[GuaranteeResult] = ()) -> None:
        self._results = list(results)

    @overload
    def __getitem__(self, key: int | str) -> GuaranteeResult: ...
    @overload
    def __getitem__(self, key: slice) -> list[GuaranteeResult]: ...
    def __getitem__(self, key: int | str | slice) -> GuaranteeResult | list[GuaranteeResult]:
        if not isinstance(key, str):
            return self._results[key]
        for result in self._results:
            if result.name == key:
                return result
        names = ", ".join(repr(result.name) for result in self._results)
        raise KeyError(f"no guarantee {key!r}; there are {names or 'none'}")

    def __len__(self) -> int:
        return len(self._results)

    def __repr__(self) -> str:
        return f"<{len(self)} guarantees: {[(one.name, one.verdict) for one in self._results]}>"


@dataclass(slots=True)
class _ObjectHistory:
    """State of one object for one guarantee."""

    shown: str
    uid: str
    since: float
    """Time from which it counts."""
    held_at: float | None = None
    violated_at: float | None = None
    deleted_at: float | None = None


@dataclass(slots=True)
class DeclaredGuarantee:
    """Declared guarantee and what was seen of it so far."""

    declared: Guarantee
    predicate: Predicate | None
    """None where the function is not at hand, as in an archive."""
    occasions: int = 0
    unknown: int = 0
    """Evaluations without a value."""
    failure: str = ""
    """Reason for which the predicate is not evaluated any more."""
    held: bool = False
    objects: list[_ObjectHistory] = field(default_factory=list)
    _present: dict[ObjectKey, _ObjectHistory] = field(default_factory=dict)

    def concerns(self, change: Change) -> bool:
        resource, _, name = self.declared.kind.partition("/")
        return (
            change.resource.startswith(resource)
            and change.resource[len(resource) :][:1] in ("", ".")
            and (not name or change.name == name)
            and self.declared.namespace in (None, change.namespace)
        )

    def observe(self, change: Change) -> None:
        """Evaluate the predicate for an object's new state."""
        key, obj = (change.namespace, change.name), change.new
        history = self._present.get(key)
        if history and (obj is None or obj["metadata"].get("uid", "") != history.uid):
            history.deleted_at = change.at
            del self._present[key]
            history = None
        if obj is None or not self._is_selected(obj):
            return
        if history is None:
            shown = f"{change.resource} {change.namespace}/{change.name}".replace(" /", " ")
            history = _ObjectHistory(shown, obj["metadata"].get("uid", ""), change.at)
            self._present[key] = history
            self.objects.append(history)
        if not self.failure and (self.declared.mode == ALWAYS or history.held_at is None):
            self._evaluate(history, obj, change.at)

    def _is_selected(self, obj: Obj) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(each.holds(labels) for each in parse_labels(self.declared.labels))

    def _evaluate(self, history: _ObjectHistory, obj: Obj, at: float) -> None:
        if self.predicate is None or (self.declared.mode == SOMETIMES and self.held):
            return
        try:
            value = self.predicate(obj)
        except PredicateFailed as error:
            self.failure = f"{history.shown} at {at:g} s: {error}"
            return
        self.occasions += 1
        if value is None:
            self.unknown += 1
        elif value:
            history.held_at, self.held = at, True
        elif self.declared.mode == ALWAYS and history.violated_at is None:
            history.violated_at = at

    def result(self, end: float) -> GuaranteeResult:
        return _RESULTS[self.declared.mode](self, end)


def _result(
    one: DeclaredGuarantee, verdict: str, why: str, violations: Sequence[str] = ()
) -> GuaranteeResult:
    """Return a result; without a violation a predicate that failed makes it unknown."""
    if one.predicate is None:
        verdict, why = UNKNOWN, "its predicate is a function, which the archive does not have"
    elif one.failure and verdict != INVALID:
        verdict, why = UNKNOWN, one.failure
    return GuaranteeResult(one.declared.name, verdict, one.occasions, why, tuple(violations))


def _without_occasion(one: DeclaredGuarantee) -> GuaranteeResult:
    return _result(one, UNKNOWN, f"no object of {one.declared.kind!r} was seen")


def _always(one: DeclaredGuarantee, _: float) -> GuaranteeResult:
    violated = [each for each in one.objects if each.violated_at is not None]
    if violated:
        names = [each.shown for each in violated]
        first = violated[0]
        return _result(
            one, INVALID, f"not true of {_listed(names)} from {first.violated_at:g} s on", names
        )
    if one.unknown:
        why = f"without a value in {one.unknown} of {one.occasions} states: a field is missing"
        return _result(one, UNKNOWN, why)
    return _result(one, VALID, "") if one.occasions else _without_occasion(one)


def _sometimes(one: DeclaredGuarantee, _: float) -> GuaranteeResult:
    if one.held:
        return _result(one, VALID, "")
    if not one.objects:
        return _without_occasion(one)
    return _result(one, UNKNOWN, f"true in none of {one.occasions} states")


def _eventually(one: DeclaredGuarantee, end: float) -> GuaranteeResult:
    within = one.declared.within
    late = [
        each
        for each in one.objects
        if (each.held_at if each.held_at is not None else math.inf) > each.since + within
        and (each.deleted_at if each.deleted_at is not None else end) >= each.since + within
    ]
    if late:
        names = [each.shown for each in late]
        return _result(
            one, INVALID, f"not true of {_listed(names)} within {in_words(within)}", names
        )
    if not one.objects:
        return _without_occasion(one)
    waiting = [each for each in one.objects if each.held_at is None and each.deleted_at is None]
    if waiting:
        names = [each.shown for each in waiting]
        why = f"the time of {_listed(names)} was not over at the end: run longer"
        return _result(one, UNKNOWN, why)
    if not one.held:
        return _result(one, UNKNOWN, "every object was deleted before its time was over")
    return _result(one, VALID, "")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"


_RESULTS: dict[str, Callable[[DeclaredGuarantee, float], GuaranteeResult]] = {
    ALWAYS: _always,
    EVENTUALLY: _eventually,
    SOMETIMES: _sometimes,
}


class DeclaredGuarantees:
    """Guarantees that one run declares, fed with its journal and its record of changes."""

    def __init__(self) -> None:
        self.declared: list[DeclaredGuarantee] = []
        self.functions: dict[str, Predicate] = {}
        """Python predicates by the names of their guarantees, put here before the declaration.

        They raise PredicateFailed if they cannot be used any further.
        """
        self._objects: dict[str, dict[ObjectKey, Change]] = {}
        """Latest change of each present object, by resource."""
        self._ended_at: float | None = None
        self._last_at = 0.0

    def learn(self, entry: Entry) -> None:
        """Take the next journal entry: a declaration, or the end of the time that is judged."""
        self._last_at = entry.at
        if entry.what == "guarantee-declared":
            self._declare(entry)
        elif entry.what == "frozen":
            self._ended_at = entry.at

    def observe(self, change: Change) -> None:
        """Take the next change. Changes after the end of the run's time are not judged."""
        if self._ended_at is not None:
            return
        present = self._objects.setdefault(change.resource, {})
        if change.new is None:
            present.pop((change.namespace, change.name), None)
        else:
            present[change.namespace, change.name] = change
        for one in self.declared:
            if one.concerns(change):
                one.observe(change)

    def _declare(self, entry: Entry) -> None:
        data = entry.data
        declared = Guarantee(
            data["mode"],
            data["kind"],
            data.get("expression"),
            data["name"],
            data["within"],
            data["namespace"],
            data["labels"],
        )
        predicate = self.functions.get(declared.name)
        if declared.expression:
            predicate = CelPredicate(declared.expression)
        one = DeclaredGuarantee(declared, predicate)
        self.declared.append(one)
        for present in list(self._objects.values()):
            for change in present.values():
                if one.concerns(change):
                    one.observe(dataclasses.replace(change, at=entry.at, old=None))

    def update(self, entry: Entry) -> None:
        """Take an entry of the run's journal again, after the run: nothing is left to learn."""

    def judge(self, without_record: str = "") -> Iterator[tuple[GuaranteeResult, Finding]]:
        """Yield each result with its finding; `without_record` is why there are no changes."""
        end = self._last_at if self._ended_at is None else self._ended_at
        for one in self.declared:
            if without_record:
                result = GuaranteeResult(one.declared.name, UNKNOWN, 0, without_record)
            else:
                result = one.result(end)
            yield result, Finding(f"guarantee {result.name!r}", result.verdict, result.why)


class ReplayedGuarantees(DeclaredGuarantees):
    """Guarantees of an archived run: each change is observed after the entries before it."""

    def __init__(self, changes: Iterable[Change]) -> None:
        super().__init__()
        self._changes = iter(changes)
        self._held: list[Change] = []
        """Change that was read, and whose turn has not come."""
        self._position = 0
        """Entries read so far."""

    def learn(self, entry: Entry) -> None:
        self._observe_until(self._position)
        super().learn(entry)
        self._position += 1

    update = learn

    def judge(self, without_record: str = "") -> Iterator[tuple[GuaranteeResult, Finding]]:
        self._observe_until(math.inf)
        yield from super().judge(without_record)

    def _observe_until(self, position: float) -> None:
        """Observe the changes that came before the entry at this position."""
        early, self._held = self._held, []
        for change in itertools.chain(early, self._changes):
            if change.entries > position:
                self._held = [change]
                return
            self.observe(change)
