"""ResourceQuota plugin: refuse writes that exceed a quota, and keep `status.used` up to date.

Runs last in the chain, as the quota is charged when it passes.
"""

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
    sum_amounts,
    unstated,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.embedded.apiserver.admission.chain import Review
    from pytest_kscen.embedded.apiserver.store import ResourceStore
    from pytest_kscen.objects.quota import Meter
    from pytest_kscen.objects.resources import Obj

    Amounts = dict[str, str]


class QuotaUsage:
    """Amounts that one resource uses of one quota, followed through the resource's history.

    Counted once, then updated by changes. Objects under deletion weigh less when their grace period
    is over, so they are charged anew at each call.
    """

    def __init__(self, quota: Obj, meter: Meter, resource_store: ResourceStore) -> None:
        self.spec = quota["spec"]
        self._quota, self._meter, self._resource_store = quota, meter, resource_store
        self._namespace = quota["metadata"]["namespace"]
        self._position: int
        self._count()

    def used(self, now: float) -> Amounts:
        end = self._resource_store.end
        if self._position < end and self._resource_store.at(self._position) is None:
            self._count()
        for position in range(self._position, end):
            change = self._resource_store.at(position)
            if change and change.event.object["metadata"].get("namespace") == self._namespace:
                if change.old:
                    removed = change.old
                    metadata = removed["metadata"]
                    if metadata.get("deletionTimestamp"):
                        self._deleting.pop(metadata["name"], None)
                    elif is_about(self._quota, self._meter, removed):
                        for name, amount in self._meter.charge(removed, 0).items():
                            self._sum[name] = quantities.subtract(self._sum[name], amount)
                if change.event.type != "DELETED":
                    self._add(change.event.object)
        self._position = end
        deleting = (self._meter.charge(obj, now) for obj in self._deleting.values())
        names = measured(self._quota, self._meter)
        return dict.fromkeys(names, "0") | masked(sum_amounts([self._sum, *deleting]), names)

    def _count(self) -> None:
        self._sum: Amounts = {}
        self._deleting: dict[str, Obj] = {}
        self._position = self._resource_store.end
        bucket = self._resource_store.buckets.get(self._namespace)
        for obj in bucket.objects.values() if bucket else ():
            self._add(obj)

    def _add(self, obj: Obj) -> None:
        metadata = obj["metadata"]
        if not is_about(self._quota, self._meter, obj):
            return
        if metadata.get("deletionTimestamp"):
            self._deleting[metadata["name"]] = obj
        else:
            self._sum = sum_amounts([self._sum, self._meter.charge(obj, 0)])


class QuotaUsages:
    """Usages of all quotas of one cluster, created at first use and renewed when a spec changes."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[str, str, str], QuotaUsage] = {}

    def of(
        self, quota: Obj, home: tuple[str, str], meter: Meter, resource_store: ResourceStore
    ) -> QuotaUsage:
        place = quota["metadata"]["uid"], *home
        usage = self._by_key.get(place)
        if usage is None or (usage.spec is not quota["spec"] and usage.spec != quota["spec"]):
            usage = self._by_key[place] = QuotaUsage(quota, meter, resource_store)
        return usage


UNMETERED = {"events"}
PODS = ("", "pods")


class QuotaAdmission:
    def __init__(self) -> None:
        self._usages = QuotaUsages()

    def enforce(self, review: Review) -> None:
        _enforce(review, self._usages)

    def enforce_when_terminating(self, review: Review) -> None:
        """Charge an updated pod that changes between the scopes Terminating and NotTerminating."""
        if (
            review.old
            and review.new
            and is_terminating(review.old) is not is_terminating(review.new)
        ):
            _enforce(review, self._usages)


def _enforce(review: Review, usages: QuotaUsages) -> None:
    namespace, store, new = review.request.namespace, review.core.store, review.new
    resource = review.request.resource
    if (
        namespace not in store.resource_store("", "resourcequotas").buckets
        or new is None
        or resource.plural in UNMETERED
    ):
        return
    written = [
        (quota, _usage_after(review, usages, quota, new))
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


def _usage_after(review: Review, usages: QuotaUsages, quota: Obj, new: Obj) -> Amounts:
    """Return the amounts of a quota used after the write; empty if the write does not touch it."""
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
    requested = growth(masked(meter.charge(new, now), names), before)
    if not requested:
        return {}
    before = usages.of(quota, home, meter, review.core.store.resource_store(*home)).used(now)
    after = {each: quantities.add(before[each], amount) for each, amount in requested.items()}
    exceeded = sorted(each for each in after if quantities.compare(after[each], hard[each]) > 0)
    if exceeded and review.request.subresource != "status":
        parts: tuple[tuple[str, Mapping[str, str]], ...] = (
            ("requested", requested),
            ("used", before),
            ("limited", hard),
        )
        words = []
        for word, amounts in parts:
            listed = (
                f"{each}={quantities.canonical(amount)}"
                for each, amount in sorted(masked(amounts, exceeded).items())
            )
            words.append(f"{word}: {','.join(listed)}")
        raise review.forbidden(f"exceeded quota: {name}, {', '.join(words)}")
    return before | after
