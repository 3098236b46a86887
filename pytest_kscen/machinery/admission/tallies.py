"""How much of a quota is used, kept up with the history of what it measures: counted once, then only what has changed.

What is being deleted weighs less when its time is over, so that alone is weighed anew each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects import quantities
from pytest_kscen.objects.totals import together
from pytest_kscen.objects.usage import is_about, masked, measured

if TYPE_CHECKING:
    from pytest_kscen.machinery.shelves import Shelf
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.objects.usage import Meter

    Amounts = dict[str, str]


class Tally:
    """What one resource uses of one quota, in the quota's namespace."""

    def __init__(self, quota: Obj, meter: Meter, shelf: Shelf) -> None:
        self.spec = quota["spec"]
        self._quota, self._meter, self._shelf = quota, meter, shelf
        self._namespace = quota["metadata"]["namespace"]
        self._count()

    def used(self, now: float) -> Amounts:
        self._catch_up()
        leaving = (self._meter.charge(obj, now) for obj in self._leaving.values())
        names = measured(self._quota, self._meter)
        return dict.fromkeys(names, "0") | masked(together([self._total, *leaving]), names)

    def _count(self) -> None:
        self._total: Amounts = {}
        self._leaving: dict[str, Obj] = {}
        self._seen = self._shelf.end
        bucket = self._shelf.buckets.get(self._namespace)
        for obj in bucket.objects.values() if bucket else ():
            self._come(obj)

    def _catch_up(self) -> None:
        end = self._shelf.end
        if self._seen < end and self._shelf.at(self._seen) is None:
            self._count()
        for position in range(self._seen, end):
            change = self._shelf.at(position)
            if change and change.event.object["metadata"].get("namespace") == self._namespace:
                if change.old:
                    self._go(change.old)
                if change.event.type != "DELETED":
                    self._come(change.event.object)
        self._seen = end

    def _come(self, obj: Obj) -> None:
        metadata = obj["metadata"]
        if not is_about(self._quota, self._meter, obj):
            return
        if metadata.get("deletionTimestamp"):
            self._leaving[metadata["name"]] = obj
        else:
            self._total = together([self._total, self._meter.charge(obj, 0)])

    def _go(self, obj: Obj) -> None:
        metadata = obj["metadata"]
        if metadata.get("deletionTimestamp"):
            self._leaving.pop(metadata["name"], None)
        elif is_about(self._quota, self._meter, obj):
            for name, amount in self._meter.charge(obj, 0).items():
                self._total[name] = quantities.subtract(self._total[name], amount)


class Tallies:
    """Those of one cluster."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, str], Tally] = {}

    def of(self, quota: Obj, home: tuple[str, str], meter: Meter, shelf: Shelf) -> Tally:
        place = quota["metadata"]["uid"], *home
        tally = self._kept.get(place)
        if tally is None or (tally.spec is not quota["spec"] and tally.spec != quota["spec"]):
            tally = self._kept[place] = Tally(quota, meter, shelf)
        return tally
