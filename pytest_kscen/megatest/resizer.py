"""volume-resizer: lets the volume grow by random steps up to its largest size. The storage may make it larger than asked."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pytest_kscen.megatest.subject import asking, attempt, disk_going, unless_gone, unless_hindered
from pytest_kscen.objects import quantities
from pytest_kscen.objects.quantities import NANO, Format, Quantity
from pytest_kscen.objects.storage import REPLICATED_VOLUMES

if TYPE_CHECKING:
    from typing import Never

    from pytest_kscen.megatest.destiny import Growth
    from pytest_kscen.megatest.subject import Subject
    from pytest_kscen.objects.resources import Obj

PATIENCE = 300.0  # seconds within which the volume has to be as large as asked
UNIT = 1024  # bytes that every size is a multiple of


async def resize(rv: Subject, growth: Growth) -> Never:
    actor = rv.actor("volume-resizer")
    least, most = (quantities.parse(step).value // UNIT or 1 for step in growth.step)
    while True:
        await rv.pause(actor, growth.period)
        if rv.volume is None:
            continue
        size = quantities.parse(rv.volume["spec"]["size"]).value
        wanted = min(size + actor.chance.whole(least, most) * UNIT, quantities.parse(growth.max_size).value)
        if wanted <= size:
            actor.log(logging.INFO, "the volume is as large as it may be", volume=rv.name, size=rv.volume["spec"]["size"])
            continue
        text = str(Quantity(wanted * NANO, Format.BINARY))
        async with attempt(actor, "resize the volume", volume=rv.name, size=text) as deed:
            with unless_gone(actor, volume=rv.name):
                with asking(deed):
                    await actor.api.patch(REPLICATED_VOLUMES, rv.name, {"spec": {"size": text}})
                await _grown(rv, wanted, text)


async def _grown(rv: Subject, wanted: int, text: str) -> None:
    hindrance = ""

    def grown() -> bool:
        nonlocal hindrance
        if rv.volume and "deletionTimestamp" not in rv.volume["metadata"]:  # whose replicas are all going then
            hindrance = disk_going(rv)
        return actual_size(rv.volume) >= wanted

    with unless_hindered(lambda: hindrance):
        await rv.view.until(rv.name, grown, timeout=PATIENCE, awaited=f"{rv.name} did not grow to {text}")


def actual_size(volume: Obj | None) -> int:
    """In bytes; one generation calls it actualSize, the next size."""
    status = (volume or {}).get("status") or {}
    return quantities.parse(status.get("actualSize") or status.get("size") or 0).value
