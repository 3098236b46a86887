"""A container's variables, and where their values come from; volumes show the same fields of a
pod as files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.rules.checks import Causes, named, required_name
from pytest_kscen.embedded.apiserver.rules.volume_sources import no_way_up
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause
from pytest_kscen.objects.quantities import canonical

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
FIELDS = (
    *(
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
    ),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
KNOWN_FIELDS = frozenset(
    {
        *FIELDS,
        "metadata.annotations",
        "metadata.labels",
        "spec.restartPolicy",
        "spec.schedulerName",
        "status.phase",
        "spec.host",
    }
)
RESOURCES = (
    *("limits.cpu", "limits.ephemeral-storage", "limits.memory"),
    *("requests.cpu", "requests.ephemeral-storage", "requests.memory"),
)
SIZES = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
DIVISORS = {
    "cpu": (("1m", "1"), "cpu"),
    "memory": (SIZES, "memory"),
    "ephemeral-storage": (SIZES, "local ephemeral storage"),
    "hugepages": (SIZES, "hugepages"),
}
_SOURCES = (
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` "
    "or `fileKeyRef`"
)


def variables(path: str, given: Sequence[Obj]) -> Causes:
    for place, variable in enumerate(given):
        here, name = f"{path}[{place}]", variable.get("name", "")
        yield from required_name(f"{here}.name", name, names.env_var)
        if "valueFrom" in variable:
            inner_path = f"{here}.valueFrom"
            source = variable["valueFrom"]
            for kind, check in CHECKS.items():
                if kind in source:
                    yield from check(f"{inner_path}.{kind}", source[kind])
            found = sum(kind in source for kind in CHECKS)
            if not found:
                yield Cause.invalid(inner_path, "", _SOURCES)
            elif variable.get("value"):
                yield Cause.invalid(
                    inner_path, "", "may not be specified when `value` is not empty"
                )
            elif found > 1:
                yield Cause.invalid(
                    inner_path, "", "may not have more than one field specified at a time"
                )


def everything_of(path: str, given: Sequence[Obj]) -> Causes:
    """`envFrom`: all keys of a ConfigMap or a Secret."""
    for place, source in enumerate(given):
        here = f"{path}[{place}]"
        if source.get("prefix"):
            yield from named(f"{here}.prefix", source["prefix"], names.env_var)
        found = [kind for kind in ("configMapRef", "secretRef") if kind in source]
        for kind in found:
            name = source[kind].get("name", "")
            yield from required_name(f"{here}.{kind}.name", name, _prefix_of_a_subdomain)
        if not found:
            yield Cause.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(found) > 1:
            yield Cause.invalid(path, "", "may not have more than one field specified at a time")


def _prefix_of_a_subdomain(name: str) -> tuple[str, ...]:
    return names.dns1123_subdomain(names.as_prefix(name))


def object_field(path: str, given: Obj, allowed: Sequence[str]) -> Causes:
    """A field of the pod itself."""
    version, field = given.get("apiVersion", ""), given.get("fieldPath", "")
    if not version:
        yield Cause.required(f"{path}.apiVersion")
    elif not field:
        yield Cause.required(f"{path}.fieldPath")
    else:
        base, key = _subscripted(field)
        refusal = ""
        if version != "v1":
            refusal = f"unsupported pod version: {version}"
        elif key is not None and base not in {"metadata.annotations", "metadata.labels"}:
            refusal = f"field label does not support subscript: {field}"
        elif key is None and field not in KNOWN_FIELDS:
            refusal = f"field label not supported: {field}"
        if refusal:
            yield Cause.invalid(
                f"{path}.fieldPath", field, f"error converting fieldPath: {refusal}"
            )
        elif key is not None:
            name = key.lower() if base == "metadata.annotations" else key
            yield from named(path, name, names.label_key)
        elif field not in allowed and field != "spec.host":
            yield Cause.unsupported(f"{path}.fieldPath", field, allowed)


def _subscripted(field: str) -> tuple[str, str | None]:
    """`metadata.labels['a']` as its two parts."""
    base, opening, key = field.partition("['")
    return (
        (base, key.removesuffix("']"))
        if opening and base and field.endswith("']")
        else (field, None)
    )


def container_resource(path: str, given: Obj, *, in_volume: bool = False) -> Causes:
    """A limit or a request of a container."""
    resource = given.get("resource", "")
    huge = resource.startswith(("limits.hugepages-", "requests.hugepages-"))
    if in_volume and not given.get("containerName"):
        yield Cause.required(f"{path}.containerName")
    elif not resource:
        yield Cause.required(f"{path}.resource")
    elif resource not in RESOURCES and not huge:
        yield Cause.unsupported(f"{path}.resource", resource, RESOURCES)
    divisor = canonical(given.get("divisor", "0"))
    kind = "hugepages" if huge else resource.partition(".")[2]
    if divisor != "0" and kind in DIVISORS and divisor not in DIVISORS[kind][0]:
        allowed, words = DIVISORS[kind]
        listed = " and ".join(allowed) if kind == "cpu" else ", ".join(allowed)
        why = f"only divisor's values {listed} are supported with the {words} resource"
        yield Cause.invalid(f"{path}.divisor", resource, why)


def _container_resource(path: str, given: Obj) -> Causes:
    return container_resource(path, given)


def _pod_field(path: str, given: Obj) -> Causes:
    return object_field(path, given, FIELDS)


def _key(path: str, given: Obj) -> Causes:
    """A key of a ConfigMap or a Secret."""
    yield from named(f"{path}.name", given.get("name", ""), names.dns1123_subdomain)
    yield from required_name(f"{path}.key", given.get("key"), names.config_key)


def _file_key(path: str, given: Obj) -> Causes:
    yield from required_name(f"{path}.key", given.get("key"), names.env_var)
    yield from required_name(f"{path}.volumeName", given.get("volumeName"), names.dns1123_label)
    if given.get("path"):
        yield from no_way_up(f"{path}.path", given["path"])
    else:
        yield Cause.required(f"{path}.path")


CHECKS = {
    "fieldRef": _pod_field,
    "resourceFieldRef": _container_resource,
    "configMapKeyRef": _key,
    "secretKeyRef": _key,
    "fileKeyRef": _file_key,
}
