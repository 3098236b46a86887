"""The garbage collector belongs to the whole process: while any store wants that, what is settled stays out of its sight.

It need not look often then either: a store asks it to, each time that it has settled.
"""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kscen.machinery.store import Store

YOUNG = 100_000  # new objects that are worth a look before a store asks for one

_holders: weakref.WeakSet[Store] = weakref.WeakSet()
_usual = gc.get_threshold()


def freeze(holder: Store, *, again: bool = False) -> None:
    """Keep it from walking through all that is there now each time that this has grown by a quarter.

    It looks a last time before, or else what is garbage by now would stay; and again at all that has been frozen so far.
    """
    global _usual  # noqa: PLW0603  # as the collector is
    if not _holders:
        _usual = gc.get_threshold()
        gc.set_threshold(YOUNG, *_usual[1:])
    _holders.add(holder)
    if again:
        gc.unfreeze()
    gc.collect()
    gc.freeze()


def thaw(holder: Store) -> None:
    """Hand everything back to it, once nobody else wants it kept away."""
    if holder in _holders:
        _holders.discard(holder)
        if not _holders:
            gc.unfreeze()
            gc.set_threshold(*_usual)
