"""What judging a custom object finds: faults, each told once, and how much was in order (it decides between alternatives)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.errors import Cause, quoted

if TYPE_CHECKING:
    from collections.abc import Callable

NOWHERE = "<nil>"


def as_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


@dataclass(slots=True)
class Verdict:
    """Collected while one value is judged."""

    faults: dict[str, Callable[[str], Cause]] = field(default_factory=dict)
    matches: int = 0

    def add(self, words: str, cause: Callable[[str], Cause]) -> None:
        """`cause` makes the cause from the path of what was judged as a whole ("" for the object itself)."""
        self.faults.setdefault(words, cause)

    def forget(self, known: int) -> None:
        """Leave only so many faults, those that were found first."""
        while len(self.faults) > known:
            self.faults.popitem()

    def merge(self, other: Verdict) -> None:
        for words, cause in other.faults.items():
            self.faults.setdefault(words, cause)
        self.matches += other.matches


def placed(root: str, path: str) -> str:
    """A field's full path."""
    steps = path.removeprefix(".")
    return ".".join(part for part in (root, steps) if part) or NOWHERE


def invalid(verdict: Verdict, path: str, value: Any, why: str) -> None:
    invalid_as(verdict, path, value, f"{path} in body {why}")


def invalid_as(verdict: Verdict, path: str, value: Any, words: str) -> None:
    verdict.add(words, lambda root: Cause.invalid(placed(root, path), value, words))


def misformatted(verdict: Verdict, path: str, form: str, value: str) -> None:
    words = f"{path} in body must be of type {form}: {quoted(value)}"
    verdict.add(words, lambda root: Cause.mistyped(placed(root, path), value, words))


def mistyped(verdict: Verdict, path: str, wanted: str, found: str) -> None:
    words = f'{path} in body must be of type {wanted}: "{found}"'
    verdict.add(words, lambda root: Cause.mistyped(placed(root, path), found, words))


def required(verdict: Verdict, path: str) -> None:
    verdict.add(f"{path} in body is required", lambda root: Cause.required(placed(root, path)))


def unsupported(verdict: Verdict, path: str, value: Any, supported: list[str]) -> None:
    words = f"{path} in body should be one of {supported}"
    verdict.add(words, lambda root: Cause.unsupported(placed(root, path), value, supported))


def too_long(verdict: Verdict, path: str, most: int) -> None:
    words = f"{path} in body should be at most {most} chars long"
    verdict.add(words, lambda root: Cause.too_long(placed(root, path), most))


def too_many(verdict: Verdict, path: str, count: int, most: int, what: str) -> None:
    words = f"{path} in body should have at most {most} {what}"
    verdict.add(words, lambda root: Cause.too_many(placed(root, path), count, most))


def plainly(verdict: Verdict, words: str) -> None:
    """A fault that Kubernetes gives no field for."""
    verdict.add(words, lambda root: Cause.invalid(placed(root, ""), "", words))
