"""YAML files as somebody hands them over: documents, each of which knows its lines.

Whatever a file holds, it is read or refused, with the file and the line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from pytest_kscen.objects.arguments import nearest

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Collection, Iterator, Mapping


Path = tuple[str, ...]
YAML_BOOLEANS = ("y", "Y", "n", "N")  # to kubectl; here they are text
TIMESTAMP = "tag:yaml.org,2002:timestamp"
MAX_EXPANSION = 10  # how often a file may say its own length by references to what it said before
CONSTRUCTION_ERRORS = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
)  # what yaml raises for a value that its tag denies


class DocumentRefused(ValueError):
    """What was given cannot be what it should be. The words say where, and why."""


class _Loader(yaml.SafeLoader):
    """Times stay text, as Kubernetes has them."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # as yaml declares it
        first: [(tag, regexp) for tag, regexp in resolvers if tag != TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file."""

    where: str
    content: Any
    lines: Mapping[Path, int] = field(default_factory=dict, repr=False)
    repeated: tuple[Path, ...] = ()
    """Keys that stand there more than once: the last one counts."""
    booleans: tuple[Path, ...] = ()
    """What is text here and a boolean to kubectl, as it is not in quotes."""

    def line_at(self, *path: str) -> int:
        """The line of what is at this path, or of the nearest above it."""
        while path not in self.lines and path:
            path = path[:-1]
        return self.lines.get(path, 1)

    def at(self, *path: str) -> str:
        """The file and the line."""
        return f"{self.where}:{self.line_at(*path)}"

    def kind_is(self, api_version: str, kind: str) -> bool:
        obj = self.content if isinstance(self.content, dict) else {}
        return (obj.get("apiVersion"), obj.get("kind")) == (api_version, kind)

    @property
    def name(self) -> str:
        """That of its object; empty if it has none."""
        metadata = self.content.get("metadata") if isinstance(self.content, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        return name if isinstance(name, str) else ""


def documents(path: pathlib.Path) -> list[Document]:
    """Those that are not empty; of a List, as kubectl takes it, each of its items is one."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DocumentRefused(f"there is no file {str(path)!r}{_beside(path)}") from None
    except IsADirectoryError:
        raise DocumentRefused(f"{path} is a folder, and no YAML file is there") from None
    except (OSError, ValueError) as error:
        raise DocumentRefused(f"{path} cannot be read: {error}") from error
    return documents_in(str(path), text)


def documents_in(where: str, text: str) -> list[Document]:
    """As above, of what has been read already; `where` says whence it comes."""
    try:
        return [each for document in _read(where, text) for each in _unrolled(document)]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = " ".join(
            part for part in (getattr(error, "context", ""), getattr(error, "problem", "")) if part
        )
        raise DocumentRefused(
            f"{where}{f':{mark.line + 1}' if mark else ''} is no YAML: {problem or error}"
        ) from None
    except RecursionError:
        raise DocumentRefused(f"{where} is nested too deeply to be read") from None


def _read(where: str, text: str) -> Iterator[Document]:
    loader = _Loader(text)
    while loader.check_node():
        node: Any = loader.get_node()
        line = node.start_mark.line + 1
        lines, repeated, booleans = _lines(node, most=MAX_EXPANSION * len(text))
        if not lines:
            raise DocumentRefused(
                f"{where}:{line} refers to itself, or repeats itself beyond measure"
            )
        try:
            content = loader.construct_document(node)
        except CONSTRUCTION_ERRORS as error:
            raise DocumentRefused(
                f"{where}:{line} has a value that is not what its tag says: {error}"
            ) from None
        if content is not None:
            yield Document(where, content, lines, repeated, booleans)


def _unrolled(document: Document) -> Iterator[Document]:
    items = document.content.get("items") if document.kind_is("v1", "List") else None
    if not isinstance(items, list):
        yield document
        return
    lines: dict[str, dict[Path, int]] = {str(number): {} for number in range(len(items))}
    for path, line in document.lines.items():
        if len(path) > 1 and path[0] == "items" and path[1] in lines:
            lines[path[1]][path[2:]] = line
    for number, item in enumerate(items):
        here = ("items", str(number))
        repeated, booleans = (
            tuple(path[2:] for path in paths if path[:2] == here)
            for paths in (document.repeated, document.booleans)
        )
        if item is not None:
            yield Document(document.where, item, lines[str(number)], repeated, booleans)


def _lines(
    root: yaml.Node, *, most: int
) -> tuple[dict[Path, int], tuple[Path, ...], tuple[Path, ...]]:
    """The line of each key, by its path, which are there twice, and where booleans are; none if
    there are more than that.
    """
    found: dict[Path, int] = {(): root.start_mark.line + 1}
    todo: list[tuple[Path, yaml.Node]] = [((), root)]
    repeated: list[Path] = []
    booleans: list[Path] = []
    seen = 0
    while todo:
        path, node = todo.pop()
        for key, marked, value in _parts(node):
            seen += 1
            if seen > most:
                return {}, (), ()
            here = (*path, key)
            if here in found:
                repeated.append(here)
            found[here] = marked.start_mark.line + 1
            if _is_boolean(value) or _is_boolean(marked):
                booleans.append(here)
            if not isinstance(value, yaml.ScalarNode):
                todo.append((here, value))
    return found, tuple(repeated), tuple(booleans)


def _is_boolean(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.style is None and node.value in YAML_BOOLEANS


def _parts(node: yaml.Node) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
    """What it has: under which key, whose line tells, and what is there."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield str(key.value) if isinstance(key, yaml.ScalarNode) else "", key, value
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield str(number), value, value


def _beside(path: pathlib.Path) -> str:
    folder = path.parent
    return nearest(path.name, (each.name for each in folder.iterdir())) if folder.is_dir() else ""


# What is expected of something that is played, as it stands beside it in YAML: what makes no
# sense of it, and what is not met.


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


def unmet(
    document: Document | None, path: tuple[str, ...], expected: object, observed: object
) -> Unmet:
    return Unmet(
        document.at(*path) if document else "by default",
        ".".join(path),
        _words(expected),
        _words(observed),
    )


def require_map(document: Document, path: tuple[str, ...], value: Any, what: str) -> None:
    if not isinstance(value, dict):
        raise refused(document, path, f"{value!r} does not fit", f"give {what}")


def require_known_keys(
    document: Document, path: tuple[str, ...], value: dict[Any, Any], names: Collection[str]
) -> None:
    for key in value:
        if key not in names:
            raise refused(
                document, (*path, str(key)), f"nothing is called {key!r} here", one_of(key, names)
            )


def one_of(word: object, words: Collection[str]) -> str:
    return f"there are {', '.join(words)}{nearest(word, words)}"


def refused(document: Document, path: tuple[str, ...], what: str, instead: str) -> DocumentRefused:
    return DocumentRefused(f"{document.at(*path)}: {'.'.join(path)}: {what}: {instead}")


def _words(value: object) -> str:
    return (
        f"one of {', '.join(map(str, value))}"
        if isinstance(value, list) and value and isinstance(value[0], str)
        else str(value)
    )
