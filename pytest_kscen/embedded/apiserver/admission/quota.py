"""ResourceQuota: refuse writes that exceed a quota, and keep the used amounts up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects import quantities
from pytest_kscen.objects.quota import (
    growth,
    is_about,
    is_terminating,
    masked,
    measured,
    meter_of,
    together,
    unstated,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_kscen.embedded.apiserver.admission.chain import Review
    from pytest_kscen.embedded.apiserver.store import Shelf
    from pytest_kscen.objects.quota import Meter
    from pytest_kscen.objects.resources import Obj

    Amounts = dict[str, str]


# How much of a quota is used, kept up with the history of what it measures: counted once, then
# only what has changed. What is being deleted weighs less when its time is over, so that alone
# is weighed anew each time.


class Tally:
    """What one resource uses of one quota, in the quota's namespace."""

    def __init__(self, quota: Obj, meter: Meter, shelf: Shelf) -> None:
        self.spec = quota["spec"]
        self._quota, self._meter, self._shelf = quota, meter, shelf
        self._namespace = quota["metadata"]["namespace"]
        self._seen: int
        self._count()

    def used(self, now: float) -> Amounts:
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


UNCOUNTED = {"events"}
PODS = ("", "pods")


class Quotas:
    """The gates of one cluster."""

    def __init__(self) -> None:
        self._tallies = Tallies()

    def enforce(self, review: Review) -> None:
        _enforce(review, self._tallies)

    def enforce_when_terminating(self, review: Review) -> None:
        """An updated pod may come into the scope of other quotas."""
        if (
            review.old
            and review.new
            and is_terminating(review.old) is not is_terminating(review.new)
        ):
            _enforce(review, self._tallies)


def _enforce(review: Review, tallies: Tallies) -> None:
    namespace, store, new = review.request.namespace, review.core.store, review.new
    resource = review.request.resource
    if (
        namespace not in store.shelf("", "resourcequotas").buckets
        or new is None
        or resource.plural in UNCOUNTED
    ):
        return
    written = [
        (quota, _amounts(review, tallies, quota, new))
        for quota in store.all("", "resourcequotas", namespace)
    ]
    if not review.request.options.dry_run:
        for quota, amounts in written:
            if amounts:
                key = "", "resourcequotas", namespace, quota["metadata"]["name"]
                status = quota.get("status") or {}
                listed = {**(status.get("used") or {}), **amounts}
                store.commit(
                    key,
                    {
                        **quota,
                        "metadata": {**quota["metadata"]},
                        "status": {**status, "hard": quota["spec"]["hard"], "used": listed},
                    },
                )


def _amounts(review: Review, tallies: Tallies, quota: Obj, new: Obj) -> Amounts:
    """What of a quota is used once the write is done; nothing if the write does not touch it."""
    resource = review.request.resource
    home = review.core.kind_of(review.request).home
    meter, now = meter_of(*home), review.core.clock.now()
    if not is_about(quota, meter, new):
        return {}
    name, hard = quota["metadata"]["name"], quota["spec"]["hard"]
    names = measured(quota, meter)
    if (resource.group, resource.plural) == PODS and (missing := unstated(new, names)):
        raise review.forbidden(f"failed quota: {name}: must specify {missing}")
    before = (
        meter.charge(review.old, now) if review.old and is_about(quota, meter, review.old) else {}
    )
    asked = growth(masked(meter.charge(new, now), names), before)
    if not asked:
        return {}
    before = tallies.of(quota, home, meter, review.core.store.shelf(*home)).used(now)
    after = {each: quantities.add(before[each], amount) for each, amount in asked.items()}
    exceeded = sorted(each for each in after if quantities.compare(after[each], hard[each]) > 0)
    if exceeded and review.request.subresource != "status":
        words = [
            f"{word}: {_listed(masked(of, exceeded))}" for word, of in _told(asked, before, hard)
        ]
        raise review.forbidden(f"exceeded quota: {name}, {', '.join(words)}")
    return before | after


def _told(
    asked: Amounts, before: Amounts, hard: Mapping[str, str]
) -> Iterable[tuple[str, Mapping[str, str]]]:
    return (("requested", asked), ("used", before), ("limited", hard))


def _listed(amounts: Mapping[str, str]) -> str:
    return ",".join(
        f"{name}={quantities.canonical(amount)}" for name, amount in sorted(amounts.items())
    )
