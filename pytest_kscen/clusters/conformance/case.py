"""A case's life: written once as a function of a visitor, kept in the register, run against every server."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.conformance.visitor import Visitor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kscen.clusters.conformance.transport import Transport

NAMESPACE_PREFIX = "conformance-"


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that must hold on every server."""

    name: str
    body: Callable[..., None]
    row: tuple[Any, ...] = ()

    def run(self, road: Transport, number: int) -> None:
        """In a namespace of its own, which is left to the server to clear away."""
        visitor = Visitor(road, f"{NAMESPACE_PREFIX}{number}")
        visitor.call("POST", "/api/v1/namespaces", {"metadata": {"name": visitor.namespace}}).ok(201)
        try:
            self.body(visitor, *self.row)
        finally:
            visitor.leave()
            visitor.delete(f"/api/v1/namespaces/{visitor.namespace}")


CASES: list[Case] = []


def case(body: Callable[[Visitor], None]) -> Callable[[Visitor], None]:
    """Put a case into the register."""
    CASES.append(Case(_name(body), body))
    return body


def case_of(rows: Iterable[tuple[Any, ...]]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """One case for each row; a row begins with the words that tell it from the others."""

    def register(body: Callable[..., None]) -> Callable[..., None]:
        CASES.extend(Case(f"{_name(body)}[{row[0]}]", body, row[1:]) for row in rows)
        return body

    return register


def load() -> list[Case]:
    """Every chapter's cases."""
    from pytest_kscen.clusters.conformance import chapters

    for module in pkgutil.iter_modules(chapters.__path__):
        importlib.import_module(f"{chapters.__name__}.{module.name}")
    return CASES


def _name(body: Callable[..., None]) -> str:
    return f"{body.__module__.rpartition('.')[2]}.{body.__name__}"
