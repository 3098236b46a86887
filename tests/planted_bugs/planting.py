"""Planted bugs as data, and the patches that switch one on for a `with` block.

A patch names its target as "module:attribute" below `pytest_kscen`. It raises PlantingError where
the attribute or the edited text does not exist, so that a rename is noticed.
"""

from __future__ import annotations
import __future__

import contextlib
import importlib
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Patch = Callable[[], contextlib.AbstractContextManager[None]]

PACKAGE = "pytest_kscen"
REMOVED = object()
"""Value of `entry` that removes the entry."""


class PlantingError(Exception):
    """A patch does not fit the package any more: its target was renamed or rewritten."""


@dataclass(frozen=True)
class PlantedBug:
    name: str
    system: str
    wrong: str
    """What is wrong, in one sentence."""
    source: str
    """The document or issue that the bug is taken from."""
    cause: str
    """The cause that a story should name."""
    patches: tuple[Patch, ...]


@contextlib.contextmanager
def switched_on(bug: PlantedBug) -> Iterator[PlantedBug]:
    """Switch a bug on for the block. Start clusters inside it: most targets are bound at boot."""
    with contextlib.ExitStack() as stack:
        for patch in bug.patches:
            stack.enter_context(patch())
        yield bug


def locate(target: str) -> tuple[Any, str, Any]:
    """Return the module or class that holds a target, the attribute's name, and its value."""
    module, _, path = target.partition(":")
    try:
        owner: Any = importlib.import_module(f"{PACKAGE}.{module}")
    except ModuleNotFoundError as error:
        raise PlantingError(f"{target}: there is no such module") from error
    *outer, name = path.split(".")
    for step in outer:
        owner = _member(target, owner, step)
    return owner, name, _member(target, owner, name)


def _member(target: str, owner: Any, name: str) -> Any:
    """Return a member as it is defined: a method or a property itself, not what it gives."""
    members = getattr(owner, "__dict__", None)
    if members is None:  # an object with slots
        members = {name: getattr(owner, name)} if hasattr(owner, name) else {}
    if name not in members:
        raise PlantingError(f"{target}: there is no {name} in {owner!r}")
    return members[name]


def replaced(target: str, make: Callable[[Any], Any]) -> Patch:
    """Replace a function, method or constant by what `make` returns for the original."""

    @contextlib.contextmanager
    def patch() -> Iterator[None]:
        owner, name, original = locate(target)
        new = make(original)
        if new is original or inspect.isbuiltin(new):  # which tables may hold for another reason
            raise PlantingError(f"{target}: {new!r} cannot replace it")
        _rebind(owner, name, original, new)
        try:
            yield
        finally:
            _rebind(owner, name, new, original)

    return patch


def _rebind(owner: Any, name: str, old: Any, new: Any) -> None:
    """Set the attribute, also in modules of the package that import it, and in their tables."""
    setattr(owner, name, new)
    if not inspect.ismodule(owner):
        return
    for path, module in list(sys.modules.items()):
        if path.startswith(PACKAGE):
            if vars(module).get(name) is old:
                setattr(module, name, new)
            tables = [one for key, one in vars(module).items() if not key.startswith("__")]
            for table in tables if callable(old) else ():
                if type(table) is dict:
                    table.update({key: new for key, value in table.items() if value is old})


def edited(target: str, *changes: tuple[str, str]) -> Patch:
    """Replace a function by itself with some of its text changed. Each text must occur once."""

    def make(original: Any) -> Any:
        function = original
        if isinstance(function, property):
            function = function.fget
        function = inspect.unwrap(getattr(function, "__func__", function))
        source = textwrap.dedent(inspect.getsource(function))
        for old, new in changes:
            if source.count(old) != 1:
                raise PlantingError(f"{target}: {old!r} occurs {source.count(old)} times")
            source = source.replace(old, new)
        flags = __future__.annotations.compiler_flag
        code = compile(source, f"<planted in {target}>", "exec", flags, dont_inherit=True)
        namespace: dict[str, Any] = {}
        exec(code, function.__globals__, namespace)  # the text is the table's own
        return namespace[function.__name__]

    return replaced(target, make)


def entry(target: str, key: Any, value: Any) -> Patch:
    """Set an entry of a dictionary, or remove it with the value REMOVED.

    A function is called with the present value, and returns the new one.
    """

    @contextlib.contextmanager
    def patch() -> Iterator[None]:
        _, _, table = locate(target)
        missing = object()
        before = table.get(key, missing)
        new = value(before) if callable(value) else value
        if before == new or (before is missing and new is REMOVED):
            raise PlantingError(f"{target}: the entry {key} is so already")
        if new is REMOVED:
            del table[key]
        else:
            table[key] = new
        try:
            yield
        finally:
            if before is missing:
                del table[key]
            else:
                table[key] = before

    return patch
