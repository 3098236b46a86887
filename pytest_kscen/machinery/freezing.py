"""The garbage collector belongs to the whole process: while any store wants that, what is settled stays out of its sight.

What ends here leaves it next to nothing. So it need not look often: at what is new when that has become much, at everything
when there is twice as much as when it last did.
"""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kscen.machinery.store import Store

YOUNG = 100_000  # new objects that are worth a look, or half of them when a store asks for one

_holders: weakref.WeakSet[Store] = weakref.WeakSet()
_usual = gc.get_threshold()
_seen = 0  # objects that were left when it last looked at everything


def freeze(holder: Store) -> None:
    """Keep it from walking through all that is there now each time that this has grown by a quarter.

    It looks a last time before, or else what is garbage by now would stay.
    """
    global _usual, _seen  # noqa: PLW0603  # as the collector is
    if not _holders:
        _usual, _seen = gc.get_threshold(), 0
        gc.set_threshold(YOUNG, *_usual[1:])
    _holders.add(holder)
    new = gc.get_count()[0]
    if _seen and new < YOUNG // 2:
        return
    has_doubled = gc.get_freeze_count() + new >= 2 * _seen
    if has_doubled:
        gc.unfreeze()
    gc.collect()
    gc.freeze()
    if has_doubled:
        _seen = gc.get_freeze_count()


def thaw(holder: Store) -> None:
    """Hand everything back to it, once nobody else wants it kept away."""
    if holder in _holders:
        _holders.discard(holder)
        if not _holders:
            gc.unfreeze()
            gc.set_threshold(*_usual)
