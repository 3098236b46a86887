"""Declarations of guarantees: a kind of objects, a predicate, and when it has to hold.

Tests make them with `always`, `eventually` and `sometimes`; a wrong one is refused here, before
anything runs. Nothing here reads a record.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.arguments import seconds_of
from pytest_kscen.objects.selectors import parse_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta

    from pytest_kscen.objects.resources import Obj

    Predicate = Callable[[Obj], object]

ALWAYS, EVENTUALLY, SOMETIMES = "always", "eventually", "sometimes"


@dataclass(frozen=True, slots=True)
class Guarantee:
    """Property of the objects of one kind, as `always`, `eventually` or `sometimes` declares it.

    One without a predicate is a decorator of the function that is its predicate.
    """

    mode: str
    """always, eventually or sometimes."""
    kind: str
    """Resource, as in `pods` or `deployments.apps`, or resource and name, as in `pods/web`."""
    predicate: str | Predicate | None
    """CEL about the variable `object`, or a Python function of the object."""
    name: str
    """Name of the result; empty until the predicate names it."""
    within: float = 0.0
    """Seconds that `eventually` grants."""
    namespace: str | None = None
    """Namespace of the objects; None is all namespaces."""
    labels: str = ""
    """Label selector of the objects."""

    def __call__(self, function: Predicate) -> Guarantee:
        """Return the guarantee with this function as its predicate."""
        if self.predicate is not None:
            raise TypeError(f"the guarantee {self.name!r} has a predicate: it decorates nothing")
        if not callable(function):
            raise TypeError(
                f"{self.mode}({self.kind!r}): the predicate is {function!r}: give CEL about "
                "`object`, or a function of the object"
            )
        name = self.name or function.__name__.replace("_", " ")
        return dataclasses.replace(self, predicate=function, name=name)

    @property
    def expression(self) -> str:
        """Return the predicate's text; empty for a Python function."""
        return self.predicate if isinstance(self.predicate, str) else ""

    def as_json(self) -> dict[str, Any]:
        """Return the declaration as the journal has it; of a function it has the name alone."""
        function = getattr(self.predicate, "__qualname__", repr(self.predicate))
        return {
            "mode": self.mode,
            "kind": self.kind,
            "name": self.name,
            **({"expression": self.expression} if self.expression else {"function": function}),
            "within": self.within,
            "namespace": self.namespace,
            "labels": self.labels,
        }


def always(
    kind: str,
    predicate: str | Predicate | None = None,
    *,
    name: str = "",
    namespace: str | None = None,
    labels: str | Mapping[str, str] = "",
) -> Guarantee:
    """Declare that the predicate holds in every state of every object of this kind.

    `kind` is a resource or `resource/name`. `predicate` is CEL about `object`, or a function of the
    object; without it the result decorates that function. Namespace None is all namespaces;
    `labels` is a selector. Raises ValueError for a mistake in any of them.
    """
    return _declared(ALWAYS, kind, predicate, name=name, namespace=namespace, labels=labels)


def eventually(
    kind: str,
    predicate: str | Predicate | None = None,
    *,
    within: str | float | timedelta,
    name: str = "",
    namespace: str | None = None,
    labels: str | Mapping[str, str] = "",
) -> Guarantee:
    """Declare that the predicate becomes true of each object of this kind, within a time.

    The time counts from the object's first state or from the declaration, whichever is later. The
    other parameters are those of `always`.
    """
    seconds = seconds_of(within)
    if not seconds:
        raise ValueError(f"within={within!r}: give more than zero, as in within='5m'")
    return _declared(
        EVENTUALLY,
        kind,
        predicate,
        name=name,
        namespace=namespace,
        labels=labels,
        within=seconds,
    )


def sometimes(
    kind: str,
    predicate: str | Predicate | None = None,
    *,
    name: str = "",
    namespace: str | None = None,
    labels: str | Mapping[str, str] = "",
) -> Guarantee:
    """Declare that the predicate holds at least once, of any object of this kind.

    A run in which it never holds is unknown: it has not tested what it is for. The parameters are
    those of `always`.
    """
    return _declared(SOMETIMES, kind, predicate, name=name, namespace=namespace, labels=labels)


def _declared(
    mode: str,
    kind: str,
    predicate: str | Predicate | None,
    *,
    name: str,
    namespace: str | None,
    labels: str | Mapping[str, str],
    within: float = 0.0,
) -> Guarantee:
    call = f"{mode}({kind!r})"
    resource, slash, object_name = kind.partition("/")
    if not resource or (slash and not object_name) or "/" in object_name:
        raise ValueError(f"{call}: name a resource, as in 'pods', or one object, as in 'pods/web'")
    selector = (
        labels if isinstance(labels, str) else ",".join(f"{k}={v}" for k, v in labels.items())
    )
    try:
        parse_labels(selector)
    except ValueError as error:
        raise ValueError(f"{call}: labels={labels!r}: {error}") from None
    if isinstance(predicate, str):
        _check_expression(call, predicate)
        name = name or f"{mode} {kind}: {predicate}"
    guarantee = Guarantee(mode, kind, None, name, within, namespace, selector)
    if predicate is None:
        return guarantee
    if isinstance(predicate, str):
        return dataclasses.replace(guarantee, predicate=predicate)
    return guarantee(predicate)


def _check_expression(call: str, expression: str) -> None:
    from pytest_kscen.cel import CompilationError, compile_expression
    from pytest_kscen.cel.types import BOOL, DYN

    try:
        program = compile_expression(expression, {"object": DYN})
    except CompilationError as error:
        raise ValueError(f"{call}: the predicate does not compile:\n{error}") from None
    if program.type not in (BOOL, DYN):
        raise ValueError(
            f"{call}: the predicate {expression!r} has the type {program.type}: it has to be true "
            "or false"
        )


def check_guarantees(given: Sequence[object]) -> None:
    """Raise TypeError or ValueError unless these are complete guarantees of different names."""
    names: set[str] = set()
    for one in given:
        if not isinstance(one, Guarantee):
            raise TypeError(
                f"guarantees: {one!r} is not a guarantee: make one with always, eventually or "
                "sometimes"
            )
        if one.predicate is None:
            raise ValueError(
                f"guarantees: {one.mode}({one.kind!r}) has no predicate: give one, or decorate a "
                "function of the object with it"
            )
        if one.name in names:
            raise ValueError(
                f"guarantees: two are named {one.name!r}: give each a name of its own with name="
            )
        names.add(one.name)
