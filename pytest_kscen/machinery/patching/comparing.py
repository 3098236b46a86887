"""Which fields a write has changed, and which it has removed. Parts that both objects share are not looked into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kscen.machinery.patching.elements import by_element, form_of
from pytest_kscen.machinery.patching.fields import insert, without
from pytest_kscen.machinery.patching.shapes import ABSENT, LIST, MAP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.machinery.patching.fields import Fields
    from pytest_kscen.machinery.patching.shapes import Shape

TOP = ["f:metadata"]  # of an object, not of a template in it
NOTHING: Mapping[str, Any] = {}


class Changes(NamedTuple):
    """Sets of fields: those that are new or have another value, and those that are gone."""

    touched: Fields
    removed: Fields

    def outside(self, ignored: Fields) -> Changes:
        """Leaving out what the server resets anyway."""
        return Changes(without(self.touched, ignored), without(self.removed, ignored)) if ignored else self


def compare(shape: Shape, old: Any, new: Any) -> Changes:
    walk = _Walk()
    walk.visit(shape, old, new)
    return Changes(walk.touched, walk.removed)


class _Walk:
    """One comparison, and where it stands."""

    def __init__(self) -> None:
        self.touched: Fields = {}
        self.removed: Fields = {}
        self._path: list[str] = []

    def visit(self, shape: Shape, old: Any, new: Any) -> None:
        if old is new:
            return
        form = form_of(shape, old if new is ABSENT else new)
        if old is not ABSENT and new is not ABSENT and form_of(shape, old) != form:
            self._contents(form_of(shape, old), shape, old, new)
        whole = self._contents(form, shape, old, new)
        if not whole and self._path:
            if old is ABSENT:
                insert(self.touched, self._path)
            elif new is ABSENT:
                insert(self.removed, self._path)

    def _contents(self, form: str, shape: Shape, old: Any, new: Any) -> bool:
        """Look at the parts; or at the value as a whole, if it is owned as a whole."""
        if form == MAP and not shape.atomic_map:
            if (isinstance(old, dict) and old) or (isinstance(new, dict) and new):
                self._entries(shape, old, new)
                return False
        elif form == LIST and not shape.atomic_list:
            before, after = (value if isinstance(value, list) else [] for value in (old, new))
            if before or after:
                self._items(shape, before, after)
                return False
        self._whole(old, new)
        return True

    def _whole(self, old: Any, new: Any) -> None:
        if not self._path:
            return
        if new is ABSENT:
            insert(self.removed, self._path)
        elif old is ABSENT or old != new:
            insert(self.touched, self._path)

    def _entries(self, shape: Shape, one: Any, other: Any) -> None:
        before, old_zero = (one, shape.written) if isinstance(one, dict) else (NOTHING, NOTHING)
        after, new_zero = (other, shape.written) if isinstance(other, dict) else (NOTHING, NOTHING)
        for name in {**before, **after}:
            if name in shape.silent and self._path == TOP:
                continue
            old = before[name] if name in before else old_zero.get(name, ABSENT)
            new = after[name] if name in after else new_zero.get(name, ABSENT)
            if old is new:
                continue
            field = shape.fields.get(name)
            part = field.shape if field else shape.others
            if part is not None:
                self._below(field.element if field else f"f:{name}", part, old, new)

    def _items(self, shape: Shape, before: list[Any], after: list[Any]) -> None:
        old_items, new_items = by_element(shape, before), by_element(shape, after)
        for element in {**old_items, **new_items}:
            old, new = old_items.get(element, ()), new_items.get(element, ())
            if len(old) <= 1 and len(new) <= 1:
                self._below(element, shape.items, old[0] if old else ABSENT, new[0] if new else ABSENT)
            else:
                self._duplicates(element, shape.items, list(old), list(new))

    def _duplicates(self, element: str, shape: Shape, old: list[Any], new: list[Any]) -> None:
        """Items that share an element are owned together."""
        path = [*self._path, element]
        if len(old) > 1 and len(new) > 1:
            if old != new:
                insert(self.touched, path)
        elif len(old) > 1:
            if new:
                self._below(element, shape, ABSENT, new[0])
            insert(self.removed, path)
        else:
            if old:
                self._below(element, shape, old[0], ABSENT)
            insert(self.touched, path)

    def _below(self, element: str, shape: Shape, old: Any, new: Any) -> None:
        self._path.append(element)
        self.visit(shape, old, new)
        self._path.pop()
