"""Reader of users' YAML files: documents with the line of every key.

An invalid file is refused with file and line. Used for scenarios, workflows and expectations; the
meaning of a document is not checked here.
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
YAML_BOOLEANS = ("y", "Y", "n", "N")  # booleans for kubectl; text here
TIMESTAMP = "tag:yaml.org,2002:timestamp"
MAX_EXPANSION = 10  # limit of nodes after expansion of references, per character of the file
CONSTRUCTION_ERRORS = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
)  # raised by yaml for a value that does not match its tag


class DocumentRefused(ValueError):
    """Refusal of a file or a document; its text gives the place and the remedy."""


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {  # noqa: RUF012  # as yaml declares it
        first: [(tag, regexp) for tag, regexp in resolvers if tag != TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


@dataclass(frozen=True, slots=True)
class Document:
    """Document of a file, with the lines of all its keys, for messages with file and line."""

    where: str
    content: Any
    lines: Mapping[Path, int] = field(default_factory=dict, repr=False)
    repeated: tuple[Path, ...] = ()
    """Keys given more than once; the last one counts."""
    booleans: tuple[Path, ...] = ()
    """Unquoted values that are text here and booleans for kubectl."""

    def line_at(self, *path: str) -> int:
        """Return the line of the value at this path, or of the nearest one above it."""
        while path not in self.lines and path:
            path = path[:-1]
        return self.lines.get(path, 1)

    def at(self, *path: str) -> str:
        return f"{self.where}:{self.line_at(*path)}"

    def kind_is(self, api_version: str, kind: str) -> bool:
        obj = self.content if isinstance(self.content, dict) else {}
        return (obj.get("apiVersion"), obj.get("kind")) == (api_version, kind)

    @property
    def name(self) -> str:
        metadata = self.content.get("metadata") if isinstance(self.content, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        return name if isinstance(name, str) else ""


def documents(path: pathlib.Path) -> list[Document]:
    """Read a file. Empty documents are skipped; the items of a List are documents of their own."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        folder = path.parent
        names = (each.name for each in folder.iterdir()) if folder.is_dir() else ()
        raise DocumentRefused(
            f"there is no file {str(path)!r}{nearest(path.name, names)}"
        ) from None
    except IsADirectoryError:
        raise DocumentRefused(f"{path} is a directory: pass a YAML file") from None
    except (OSError, ValueError) as error:
        raise DocumentRefused(f"{path} cannot be read: {error}") from error
    return documents_in(str(path), text)


def documents_in(where: str, text: str) -> list[Document]:
    try:
        return [each for document in _read(where, text) for each in _unrolled(document)]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = " ".join(
            part for part in (getattr(error, "context", ""), getattr(error, "problem", "")) if part
        )
        raise DocumentRefused(
            f"{where}{f':{mark.line + 1}' if mark else ''} is not YAML: {problem or error}"
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
                f"{where}:{line} refers to itself, or its references expand too far"
            )
        try:
            content = loader.construct_document(node)
        except CONSTRUCTION_ERRORS as error:
            raise DocumentRefused(
                f"{where}:{line} has a value that does not match its YAML tag: {error}"
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
    """Return the line of each key, the repeated keys and the unquoted booleans, by path; nothing if
    there are more than `most` keys.
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
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield str(key.value) if isinstance(key, yaml.ScalarNode) else "", key, value
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield str(number), value, value


API_VERSION, KIND = "kscen.io/v1alpha1", "Expectations"


@dataclass(frozen=True, slots=True)
class Unmet:
    """Expectation that does not hold. Reports and assertions show its place in the file, the
    expected and the observed value.
    """

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
