"""The names of a definition, and how its versions are converted into each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import Cause
from pytest_kscen.objects.names import dns1035_label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kscen.objects.resources import Obj

MIXED = "may have mixed case, but should otherwise match: "


def name_faults(names: Obj, path: str) -> Iterator[Cause]:
    for name in ("plural", "singular", "kind", "listKind"):
        if not names.get(name):
            yield Cause.required(f"{path}.{name}")
    for name in ("plural", "singular"):
        yield from _name(f"{path}.{name}", names.get(name, ""))
    for name in ("kind", "listKind"):
        yield from _name(f"{path}.{name}", names.get(name, ""), str.lower, MIXED)
    for place, name in enumerate(names.get("shortNames") or ()):
        yield from _name(f"{path}.shortNames[{place}]", name)
    if names.get("kind") and names["kind"] == names.get("listKind"):
        yield Cause.invalid(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same")
    for place, name in enumerate(names.get("categories") or ()):
        yield from _name(f"{path}.categories[{place}]", name)


def _name(field: str, name: str, form: Callable[[str], str] = str, words: str = "") -> Iterator[Cause]:
    if name and (wrong := dns1035_label(form(name))):
        yield Cause.invalid(field, name, words + ",".join(wrong))


def conversion_faults(conversion: Obj | None) -> Iterator[Cause]:
    if conversion is None:
        return
    strategy, webhook, path = conversion.get("strategy", ""), conversion.get("webhook") or {}, "spec.conversion"
    config, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if strategy not in {"None", "Webhook"}:
        field = f"{path}.strategy"
        yield Cause.unsupported(field, strategy, ("None", "Webhook")) if strategy else Cause.required(field)
    if strategy != "Webhook":
        why = "should not be set when strategy is not set to Webhook"
        if config is not None:
            yield Cause.forbidden(f"{path}.webhookClientConfig", why)
        if versions:
            yield Cause.forbidden(f"{path}.conversionReviewVersions", why)
        return
    if config is None:
        yield Cause.required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook")
    else:
        from pytest_kscen.machinery.rules.webhooks import client  # few definitions convert

        yield from client(f"{path}.webhookClientConfig", config)
    yield from _review_versions(versions, f"{path}.conversionReviewVersions")


def _review_versions(versions: list[str], path: str) -> Iterator[Cause]:
    if not versions:
        yield Cause.required(path)
        return
    for place, version in enumerate(versions):
        if version in versions[:place]:
            yield Cause.invalid(f"{path}[{place}]", version, "duplicate version")
        else:
            yield from (Cause.invalid(f"{path}[{place}]", version, words) for words in dns1035_label(version))
    if not {"v1", "v1beta1"}.intersection(versions):
        yield Cause.invalid(path, versions, "must include at least one of v1, v1beta1")
