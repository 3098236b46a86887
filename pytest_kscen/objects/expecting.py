"""What is expected of something that is played, as it stands beside it in YAML: what makes no sense of it, and what is not met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.documents import Document, DocumentRefused
from pytest_kscen.objects.guesses import nearest

if TYPE_CHECKING:
    from collections.abc import Collection

API_VERSION, KIND = "kscen.io/v1alpha1", "Expectations"


@dataclass(frozen=True, slots=True)
class Unmet:
    """One that does not hold."""

    where: str
    what: str
    expected: str
    observed: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}: expected {self.expected}, observed {self.observed}"


def unmet(document: Document | None, path: tuple[str, ...], expected: object, observed: object) -> Unmet:
    return Unmet(document.at(*path) if document else "by default", ".".join(path), _words(expected), _words(observed))


def a_map(document: Document, path: tuple[str, ...], value: Any, what: str) -> None:
    if not isinstance(value, dict):
        raise refused(document, path, f"{value!r} does not fit", f"give {what}")


def known(document: Document, path: tuple[str, ...], value: dict[Any, Any], names: Collection[str]) -> None:
    for key in value:
        if key not in names:
            raise refused(document, (*path, str(key)), f"nothing is called {key!r} here", one_of(key, names))


def one_of(word: object, words: Collection[str]) -> str:
    return f"there are {', '.join(words)}{nearest(word, words)}"


def refused(document: Document, path: tuple[str, ...], what: str, instead: str) -> DocumentRefused:
    return DocumentRefused(f"{document.at(*path)}: {'.'.join(path)}: {what}: {instead}")


def _words(value: object) -> str:
    return f"one of {', '.join(map(str, value))}" if isinstance(value, list) and value and isinstance(value[0], str) else str(value)
