"""The garbage collector belongs to the whole process: while any store wants that, what is settled stays out of its sight.

What ends here leaves it next to nothing. So while there is a store it seldom looks by itself; for a large one it looks at what
is new when memory has grown by a quarter, and at everything when there is twice as much as when it last did.
"""

from __future__ import annotations

import gc
import sys
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kscen.machinery.store import Store

YOUNG = 100_000  # new objects that are worth a look before a store asks for one
QUARTER, DOUBLE = 1.25, 2.0

_open: weakref.WeakSet[Store] = weakref.WeakSet()
_holders: weakref.WeakSet[Store] = weakref.WeakSet()
_usual: tuple[int, int, int] | None = None  # while any is open: what was so before
_left = _left_of_all = 0  # blocks of memory, when it had looked last, and when it had looked at everything


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
    """Keep it from walking through all that is there now each time that this has grown by a quarter.

    It looks a last time before, or else what is garbage by now would stay.
    """
    global _left, _left_of_all  # noqa: PLW0603  # as the collector is
    if not _holders:
        _left = _left_of_all = 0
    _holders.add(holder)
    blocks = sys.getallocatedblocks()
    if blocks < QUARTER * _left:
        return
    has_doubled = blocks >= DOUBLE * _left_of_all
    if has_doubled:
        gc.unfreeze()
    gc.collect()
    gc.freeze()
    _left = sys.getallocatedblocks()
    if has_doubled:
        _left_of_all = _left


def thaw(holder: Store) -> None:
    """Hand everything back to it, once nobody else wants it kept away."""
    if holder in _holders:
        _holders.discard(holder)
        if not _holders:
            gc.unfreeze()
    _open.discard(holder)
    _restore()
