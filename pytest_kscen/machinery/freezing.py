"""The garbage collector belongs to the whole process: what is settled stays out of its sight while any store wants that."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kscen.machinery.store import Store

_holders: weakref.WeakSet[Store] = weakref.WeakSet()


def freeze(holder: Store, *, again: bool = False) -> None:
    """Keep it from walking through all that is there now each time that this has grown by a quarter.

    It looks a last time before, or else what is garbage by now would stay; and again at all that has been frozen so far.
    """
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
