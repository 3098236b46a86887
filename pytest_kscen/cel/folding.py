"""The macros over lists, maps and optionals: what each makes of its rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.cel.mistakes import EvaluationError, no_such_overload
from pytest_kscen.cel.values import NONE, Optional

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Variables = dict[str, Any]
    Evaluate = Callable[[Variables], Any]
    Rounds = Iterator[tuple[Any, Any]]
    Folded = Callable[[Rounds, Variables, Evaluate, Evaluate | None], Any]


def over_optional(over: Evaluate, name: str, step: Evaluate, *, wraps: bool) -> Evaluate:
    def evaluate(variables: Variables) -> Any:
        held = over(variables)
        if not held.there:
            return NONE
        found = step({**variables, name: held.value})
        return Optional(found, there=True) if wraps else found

    return evaluate


def rounds_over(value: Any, names: tuple[str, ...], inner: Variables) -> Iterator[tuple[Any, Any]]:
    """One round for each element: its key, and what stands for it. What the round is about is set in the variables."""
    if not isinstance(value, (list, dict)):
        raise no_such_overload()
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in list(pairs):
        it = key if isinstance(value, dict) else part
        if len(names) > 1:
            inner[names[0]], inner[names[1]] = key, part
        else:
            inner[names[0]] = it
        yield key, it


def _quantified(decisive: bool) -> Folded:  # noqa: FBT001 - false for all, true for exists
    def folded(rounds: Rounds, inner: Variables, step: Evaluate, _: Evaluate | None) -> Any:
        mistake: EvaluationError | None = None
        for _round in rounds:
            try:
                if step(inner) is decisive:
                    return decisive
            except EvaluationError as found:
                mistake = found
        if mistake:
            raise mistake
        return not decisive

    return folded


def _exists_one(rounds: Rounds, inner: Variables, step: Evaluate, _: Evaluate | None) -> bool:
    return sum(1 for _round in rounds if step(inner) is True) == 1


def _filter(rounds: Rounds, inner: Variables, step: Evaluate, _: Evaluate | None) -> list[Any]:
    return [it for _key, it in rounds if step(inner) is True]


def _map(rounds: Rounds, inner: Variables, step: Evaluate, condition: Evaluate | None) -> list[Any]:
    return [step(inner) for _round in rounds if condition is None or condition(inner) is True]


def _transform_map(rounds: Rounds, inner: Variables, step: Evaluate, condition: Evaluate | None) -> dict[Any, Any]:
    return {key: step(inner) for key, _it in rounds if condition is None or condition(inner) is True}


def _transform_entries(rounds: Rounds, inner: Variables, step: Evaluate, condition: Evaluate | None) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for _round in rounds:
        if condition is None or condition(inner) is True:
            for name, value in step(inner).items():
                if name in found:
                    raise EvaluationError(f"insert failed: key {name} already exists")
                found[name] = value
    return found


FOLDS: dict[str, Folded] = {
    "all": _quantified(False),
    "exists": _quantified(True),
    "exists_one": _exists_one,
    "filter": _filter,
    "map": _map,
    "transformList": _map,
    "transformMap": _transform_map,
    "transformMapEntry": _transform_entries,
}
