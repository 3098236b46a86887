"""Registry of extensions: what packages add to an extension point, beside what is built in.

Every extension point is one `Registry`, which lives in the package that uses it. Packages add to it
by an entry point of its group (`pytest_kscen.profiles` …) or, in a pytest session, by a hook of
`plugin.hookspecs`. Commands without pytest read the same registries. Must not import pytest, nor
any package above the foundations.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import metadata
from typing import Any, Generic, TypeVar

T = TypeVar("T")

PREFIX = "pytest_kscen."
MISSING = object()


class ExtensionError(ValueError):
    """An extension that cannot be used. The message names it, its package and the remedy."""


class Registry(Mapping[str, T], Generic[T]):
    """Extensions of one extension point, by name: built-in ones first, then others by name.

    Iteration and lookup import the packages that are installed; `names` and `check_names` do not.
    An extension has its name as an attribute and every fact of the point; what lacks one is
    refused with an `ExtensionError` when it is added.
    """

    def __init__(
        self,
        point: str,
        noun: str,
        *,
        facts: Mapping[str, str],
        built_in: tuple[T, ...],
        attribute: str = "name",
        check: Callable[[T, Mapping[str, T]], str] = lambda _extension, _others: "",
    ) -> None:
        """Register what is built in.

        `point` is the entry-point group without its prefix; `facts` are the attributes that an
        extension has to define, each with a line to write; `attribute` is the one with its name.
        `check` returns why an extension with all facts cannot be used beside the others, and what
        to do; empty if it can.
        """
        self._attribute = attribute
        self.group = PREFIX + point
        self._noun = noun
        self._facts = {attribute: f'{attribute} = "my-name"', **facts}
        self._check = check
        self._found: dict[str, T] = {}
        self._entry_points: dict[str, metadata.EntryPoint] | None = None
        self._loaded_from: dict[str, str] = {}
        """Installed packages by the names of extensions that were imported from them."""
        self._clashes: dict[str, str] = {}
        """Messages by the name that an installed extension shares with another one."""
        for extension in built_in:
            self._register(extension, _package_of(extension))
        self._built_in = frozenset(self._found)

    def add(self, extension: T, *, package: str = "") -> bool:
        """Add one, or refuse it; return False if the same object is there already.

        An installed extension of the same name is imported now, to be compared.
        """
        name = getattr(extension, self._attribute, None)
        if isinstance(name, str) and name in self._installed():
            self._load(name)
        return self._register(extension, package or _package_of(extension))

    def _register(self, extension: T, package: str) -> bool:
        facts = {**self._facts, **{name: f"def {name}(self, …)" for name in _abstract(extension)}}
        for fact, line in facts.items():
            if getattr(extension, fact, MISSING) is MISSING or fact in _abstract(extension):
                raise ExtensionError(
                    f"{_with_package(extension, package)} is no {self._noun}: it "
                    f"does not define `{fact}`: add `{line}` to it"
                )
        name = getattr(extension, self._attribute)
        if not isinstance(name, str) or not name:
            raise ExtensionError(
                f"{_with_package(extension, package)} is no {self._noun}: its "
                f"`{self._attribute}` is {name!r}: give it a name, as in "
                f"`{self._facts[self._attribute]}`"
            )
        other = self._found.get(name)
        if other is extension:
            return False
        if other is not None:
            raise ExtensionError(
                f"there are two {self._noun}s {name!r}: "
                f"{_with_package(other, _package_of(other))} and "
                f"{_with_package(extension, package)}: {self._remedy(name, extension)}"
            )
        if why := self._check(extension, self._found):
            raise ExtensionError(f"{_with_package(extension, package)} is no {self._noun}: {why}")
        self._found[name] = extension
        return True

    def _remedy(self, name: str, extension: T) -> str:
        """Return what to do about an extension that a hook adds by a name in use."""
        if name in self._built_in:
            return f"the first one is built in: rename {_described(extension)}"
        if package := self._loaded_from.get(name):
            return f"rename {_described(extension)}, or uninstall {package!r}"
        return "rename one of them"

    def discard(self, extension: T) -> None:
        """Take back what `add` has added, if it is there."""
        for name in [name for name, each in self._found.items() if each is extension]:
            del self._found[name]

    def names(self) -> list[str]:
        """Return all names, without importing the packages that are installed."""
        return list(dict.fromkeys([*self._found, *self._installed()]))

    def is_built_in(self, name: str) -> bool:
        return name in self._built_in

    def check_names(self) -> None:
        """Raise an ExtensionError if installed extensions share a name; import none of them."""
        self._installed()
        if self._clashes:
            raise ExtensionError("\n".join(self._clashes.values()))

    def __getitem__(self, name: str) -> T:
        if name not in self._found and name in self._installed():
            self._load(name)
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        self.check_names()
        for name in list(self._installed()):
            self._load(name)
        return iter(list(self._found))

    def __len__(self) -> int:
        return len(self.names())

    def _installed(self) -> dict[str, metadata.EntryPoint]:
        """Return the entry points that are not loaded yet, by name."""
        if self._entry_points is None:
            found: dict[str, metadata.EntryPoint] = {}
            for point in sorted(_entry_points(self.group), key=lambda each: each.name):
                described = f"{point.value} of the package {_distribution(point)!r}"
                if point.name in self._built_in:
                    self._clashes[point.name] = (
                        f"there is a built-in {self._noun} {point.name!r}, and {described} has "
                        "its name: rename this one, or uninstall its package"
                    )
                elif other := found.get(point.name):
                    packages = {_distribution(other), _distribution(point)}
                    remedy = ", or uninstall one of the packages" if len(packages) > 1 else ""
                    self._clashes[point.name] = (
                        f"there are two {self._noun}s {point.name!r}: {other.value} of the "
                        f"package {_distribution(other)!r} and {described}: rename one of them"
                        f"{remedy}"
                    )
                else:
                    found[point.name] = point
            self._entry_points = found
        return self._entry_points

    def _load(self, name: str) -> None:
        if clash := self._clashes.get(name):
            raise ExtensionError(clash)
        point = self._installed()[name]
        package = _distribution(point)
        try:
            extension: Any = point.load()
        except Exception as error:
            raise ExtensionError(
                f"the {self._noun} {name!r} of the package {package!r} cannot be imported from "
                f"{point.value}: {error!r}: repair the package, or uninstall it"
            ) from error
        own = getattr(extension, self._attribute, name)
        if own != name:
            raise ExtensionError(
                f"{_described(extension)} of the package {package!r} has the name "
                f"{own!r}, and its entry point in {self.group} has {name!r}: give "
                "both the same name"
            )
        self._register(extension, package)
        self._loaded_from[name] = package
        del self._installed()[name]


def returned_by_hook(point: str, returned: Any, plugins: Any) -> list[Any]:
    """Return the extensions that a hook has returned; raise an ExtensionError if it is no list.

    `plugins` is pytest's plugin manager: the message names the plugins that have this hook.
    """
    if isinstance(returned, Iterable) and not isinstance(returned, str | Mapping):
        return list(returned)
    hook = f"pytest_kscen_{point}"
    having = [name for name, plugin in plugins.list_name_plugin() if hasattr(plugin, hook)]
    raise ExtensionError(
        f"the hook {hook} of the plugin {' or '.join(map(repr, having))} returned "
        f"{_with_package(returned, _package_of(returned))}, and not a list: return a list of what "
        "it adds, as in `return [First, Second]`"
    )


def is_installed(point: str) -> bool:
    """Return whether any package has an entry point of this extension point."""
    return bool(_entry_points(PREFIX + point))


@functools.cache
def _entry_points(group: str) -> tuple[metadata.EntryPoint, ...]:
    return tuple(point for point in _all_entry_points() if point.group == group)


@functools.cache
def _all_entry_points() -> tuple[metadata.EntryPoint, ...]:
    """Read the metadata of all installed packages once for each process: it takes milliseconds."""
    found = metadata.entry_points()
    groups = [group for group in found.groups if group.startswith(PREFIX)]
    return tuple(point for group in groups for point in found.select(group=group))


def _abstract(extension: object) -> list[str]:
    return sorted(getattr(extension, "__abstractmethods__", ()))


def _distribution(point: metadata.EntryPoint) -> str:
    return point.dist.name if point.dist else point.value.partition(".")[0]


def _described(extension: object) -> str:
    """Return how a message names an extension: a class by its path, an object by its class's."""
    if inspect.isclass(extension):
        return f"{extension.__module__}.{extension.__qualname__}"
    return f"an object of {type(extension).__module__}.{type(extension).__qualname__}"


def _with_package(extension: object, package: str) -> str:
    """Return how a message names an extension and its package: builtins have none."""
    if package == "builtins":
        return repr(extension)
    return f"{_described(extension)} of the package {package!r}"


def _package_of(extension: object) -> str:
    kind = extension if inspect.isclass(extension) else type(extension)
    return kind.__module__.partition(".")[0]
