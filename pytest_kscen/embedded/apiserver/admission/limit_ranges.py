"""LimitRanger plugin: set default requests and limits, and refuse amounts outside a LimitRange.

Called for new and resized pods and for claims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects import quantities
from pytest_kscen.objects.quota import total

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_kscen.embedded.apiserver.admission.chain import Review
    from pytest_kscen.objects.resources import Obj

    Amounts = Mapping[str, str]

ANNOTATION = "kubernetes.io/limit-ranger"
CONTAINER_KINDS = {"containers": "container", "initContainers": "init container"}


def _ranges(review: Review) -> Sequence[Obj]:
    """Return the namespace's LimitRanges; none for an object that is being deleted."""
    store, namespace = review.core.store, review.request.namespace
    if namespace not in store.resource_store("", "limitranges").buckets:
        return ()
    return (
        ()
        if review.old and review.old["metadata"].get("deletionTimestamp")
        else list(store.all("", "limitranges", namespace))
    )


# Defaults.


def set_defaults(review: Review) -> None:
    """Set a pod's missing requests and limits from the namespace's LimitRanges.

    Lists what was set in the annotation kubernetes.io/limit-ranger, as Kubernetes does.
    """
    assert review.new is not None
    for limit_range in _ranges(review):
        limits, requests = (
            _defaults(limit_range, "default"),
            _defaults(limit_range, "defaultRequest"),
        )
        pod = review.new
        spec, filled_in = dict(pod["spec"]), []
        for kind, label in CONTAINER_KINDS.items():
            if not spec.get(kind):
                continue
            filled = []
            for container in spec[kind]:
                resources = dict(container.get("resources") or {})
                for which, defaults, word in (
                    ("requests", requests, "request"),
                    ("limits", limits, "limit"),
                ):
                    given = resources.get(which) or {}
                    missing = sorted(name for name in defaults if name not in given)
                    if missing:
                        resources[which] = {**given, **{name: defaults[name] for name in missing}}
                        filled_in.append(
                            f"{', '.join(missing)} {word} for {label} {container['name']}"
                        )
                filled.append({**container, "resources": resources})
            spec[kind] = filled
        if filled_in:
            pod["spec"], metadata = spec, pod["metadata"]
            words = "LimitRanger plugin set: " + "; ".join(filled_in)
            metadata["annotations"] = {**(metadata.get("annotations") or {}), ANNOTATION: words}


def _defaults(limit_range: Obj, name: str) -> Amounts:
    found: dict[str, str] = {}
    for limit in limit_range["spec"].get("limits") or ():
        if limit["type"] == "Container":
            found |= limit.get(name) or {}
    return found


# Validation.


def validate_pod(review: Review) -> None:
    pod = review.obj
    for limit_range in _ranges(review):
        wrong: list[str] = []
        for limit in limit_range["spec"].get("limits") or ():
            if limit["type"] == "Container":
                for container in [
                    *pod["spec"]["containers"],
                    *(pod["spec"].get("initContainers") or ()),
                ]:
                    resources = container.get("resources") or {}
                    wrong += _violations(
                        limit, resources.get("requests") or {}, resources.get("limits") or {}
                    )
            elif limit["type"] == "Pod":
                requests, limits = (
                    total(pod, which, overhead=False) for which in ("requests", "limits")
                )
                wrong += _violations(limit, requests, limits)
        _refuse(review, wrong)


def validate_claim(review: Review) -> None:
    requests = (review.obj["spec"].get("resources") or {}).get("requests") or {}
    for limit_range in _ranges(review):
        wrong: list[str] = []
        for limit in limit_range["spec"].get("limits") or ():
            if limit["type"] == "PersistentVolumeClaim":
                wrong += _bound_violations(limit, "min", {"request": requests})
                wrong += _bound_violations(limit, "max", {"request": requests})
        _refuse(review, wrong)


def _refuse(review: Review, wrong: list[str]) -> None:
    reasons = list(dict.fromkeys(wrong))
    if reasons:
        raise review.forbidden(reasons[0] if len(reasons) == 1 else f"[{', '.join(reasons)}]")


def _violations(limit: Obj, requests: Amounts, limits: Amounts) -> list[str]:
    ratios = [
        _ratio(limit, name, requests, limits) for name in limit.get("maxLimitRequestRatio") or ()
    ]
    return [
        *_bound_violations(limit, "min", {"request": requests, "limit": limits}),
        *_bound_violations(limit, "max", {"limit": limits, "request": requests}),
        *(violation for violation in ratios if violation),
    ]


def _bound_violations(limit: Obj, which: str, given: Mapping[str, Amounts]) -> Iterator[str]:
    """Yield a text for each resource outside the minimum or maximum (`which`) of a LimitRange.

    `given` holds the amounts by their word in the text. The first ones are required, and the first
    violation counts.
    """
    sign = 1 if which == "max" else -1
    required = next(iter(given))
    for name, bound in (limit.get(which) or {}).items():
        limit_text = f"{which}imum {name} usage per {limit['type']} is {bound}"
        if name not in given[required]:
            yield f"{limit_text}.  No {required} is specified"
            continue
        for word, amounts in given.items():
            if name in amounts and quantities.compare(amounts[name], bound) * sign > 0:
                yield f"{limit_text}, but {word} is {amounts[name]}"
                break


def _ratio(limit: Obj, name: str, requests: Amounts, limits: Amounts) -> str:
    bound = limit["maxLimitRequestRatio"][name]
    limit_text = f"{name} max limit to request ratio per {limit['type']} is {bound}"
    request, most = (
        quantities.nanos(requests.get(name, "0")),
        quantities.nanos(limits.get(name, "0")),
    )
    if not request:
        return f"{limit_text}, but no request is specified or request is 0"
    if not most:
        return f"{limit_text}, but no limit is specified or limit is 0"
    ratio = most / request
    return (
        f"{limit_text}, but provided ratio is {ratio:f}"
        if ratio > quantities.nanos(bound) / quantities.NANO
        else ""
    )
