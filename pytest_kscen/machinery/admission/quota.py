"""ResourceQuota: a write must leave every quota of its namespace kept, and is then written down in their status.

How much is used is not taken from the status but from tallies of what is there, so that it is right from the quota's
first moment on and after every deletion. The status is what people read; a controller keeps it up with what goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.admission.tallies import Tallies
from pytest_kscen.objects import quantities
from pytest_kscen.objects.charges import is_terminating, unstated
from pytest_kscen.objects.usage import growth, is_about, masked, measured, meter_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_kscen.machinery.admission.review import Review
    from pytest_kscen.objects.resources import Obj

    Amounts = dict[str, str]

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
        if review.old and review.new and is_terminating(review.old) is not is_terminating(review.new):
            _enforce(review, self._tallies)


def _enforce(review: Review, tallies: Tallies) -> None:
    namespace, store, new = review.request.namespace, review.core.store, review.new
    resource = review.request.resource
    if namespace not in store.shelf("", "resourcequotas").buckets or new is None or resource.plural in UNCOUNTED:
        return
    written = [(quota, _amounts(review, tallies, quota, new)) for quota in store.all("", "resourcequotas", namespace)]
    if not review.request.options.dry_run:
        for quota, amounts in written:
            if amounts:
                key = "", "resourcequotas", namespace, quota["metadata"]["name"]
                store.commit(key, _with_usage(quota, amounts))


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
    before = meter.charge(review.old, now) if review.old and is_about(quota, meter, review.old) else {}
    asked = growth(masked(meter.charge(new, now), names), before)
    if not asked:
        return {}
    before = tallies.of(quota, home, meter, review.core.store.shelf(*home)).used(now)
    after = {each: quantities.add(before[each], amount) for each, amount in asked.items()}
    exceeded = sorted(each for each in after if quantities.compare(after[each], hard[each]) > 0)
    if exceeded and review.request.subresource != "status":
        words = [f"{word}: {_listed(masked(of, exceeded))}" for word, of in _told(asked, before, hard)]
        raise review.forbidden(f"exceeded quota: {name}, {', '.join(words)}")
    return before | after


def _told(asked: Amounts, before: Amounts, hard: Mapping[str, str]) -> Iterable[tuple[str, Mapping[str, str]]]:
    return (("requested", asked), ("used", before), ("limited", hard))


def _listed(amounts: Mapping[str, str]) -> str:
    return ",".join(f"{name}={quantities.canonical(amount)}" for name, amount in sorted(amounts.items()))


def _with_usage(quota: Obj, amounts: Amounts) -> Obj:
    status = quota.get("status") or {}
    listed = {**(status.get("used") or {}), **amounts}
    return {**quota, "metadata": {**quota["metadata"]}, "status": {**status, "hard": quota["spec"]["hard"], "used": listed}}
