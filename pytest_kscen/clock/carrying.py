"""A request that is begun by hand: answered at once, or carried on by a task."""

from __future__ import annotations

import asyncio
import types
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

    from pytest_kscen.clock.loop import VirtualLoop

T = TypeVar("T")


def begin(loop: VirtualLoop, coroutine: Coroutine[Any, Any, T]) -> tuple[bool, Any]:
    """Start a request by hand: (True, its result) if it never waits, else (False, a coroutine for the rest of it)."""
    outer = asyncio._get_running_loop()  # noqa: SLF001  # asyncio's documented hook for loops of others
    asyncio._set_running_loop(loop)  # noqa: SLF001
    try:
        return False, _carry_on(coroutine, coroutine.send(None))
    except StopIteration as stop:
        return True, stop.value
    finally:
        asyncio._set_running_loop(outer)  # noqa: SLF001


async def _carry_on(coroutine: Coroutine[Any, Any, T], waits_for: Any) -> T:
    return await _resume(coroutine, waits_for)  # a task takes nothing but a coroutine, and that is a generator


@types.coroutine
def _resume(coroutine: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
    try:
        while True:
            try:
                sent = yield waits_for
            except BaseException as error:  # noqa: BLE001  # a cancellation has to reach the coroutine
                waits_for = coroutine.throw(error)
            else:
                waits_for = coroutine.send(sent)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


def carried_by(frame: types.FrameType) -> Any:
    """The request that is carried on in this frame, if one is."""
    return frame.f_locals["coroutine"] if frame.f_code is _carry_on.__code__ else None
