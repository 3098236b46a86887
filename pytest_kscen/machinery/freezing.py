"""The garbage collector belongs to the whole process: while any store wants that, what is settled stays out of its sight.

What ends here leaves it next to nothing. So while there is a store it seldom looks by itself; for a large one it looks at
everything when there is twice as much as when it last did.
"""

from __future__ import annotations

import gc
import sys
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kscen.machinery.store import Store

YOUNG = 100_000  # new objects that are worth a look before a store asks for one
GROWTH = 2.0

_open: weakref.WeakSet[Store] = weakref.WeakSet()
_holders: weakref.WeakSet[Store] = weakref.WeakSet()
_usual: tuple[int, int, int] | None = None  # while any is open: what was so before
_left = 0  # blocks of memory, when it had looked last


def ease(store: Store) -> None:
    """Let it look at so much at once that it is worth the time, until the store is closed, or nobody has it any more."""
    global _usual  # noqa: PLW0603  # as the collector is
    if _usual is None:
        _usual = gc.get_threshold()
        gc.set_threshold(YOUNG, *_usual[1:])
    _open.add(store)
    weakref.finalize(store, _restore).atexit = False


def _restore() -> None:
    """When none is open; what somebody else has set meanwhile stays."""
    global _usual  # noqa: PLW0603  # as the collector is
    if _usual is not None and not list(_open):
        if gc.get_threshold() == (YOUNG, *_usual[1:]):
            gc.set_threshold(*_usual)
        _usual = None


def freeze(holder: Store) -> None:
    """Keep it from walking through all that is there now, which it does by itself no more until there is twice as much."""
    global _left  # noqa: PLW0603  # as the collector is
    blocks = sys.getallocatedblocks()
    _left = _left or blocks  # what was there before the first is mostly modules
    _holders.add(holder)
    if blocks >= GROWTH * _left:
        gc.unfreeze()
        gc.collect()
        _left = sys.getallocatedblocks()
    gc.freeze()


def thaw(holder: Store) -> None:
    """Hand everything back to it, once nobody else wants it kept away; it looks at once, for others may come soon."""
    global _left  # noqa: PLW0603  # as the collector is
    if holder in _holders:
        _holders.discard(holder)
        if not _holders:
            gc.unfreeze()
            gc.collect()
            _left = sys.getallocatedblocks()
    _open.discard(holder)
    _restore()
