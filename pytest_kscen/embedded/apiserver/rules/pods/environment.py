"""Validators of environment variables and of references to fields and resources of a pod.

`volumes` uses the references too, for files of the downward API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.rules.checks import (
    Causes,
    Validator,
    validate_name,
    validate_required_name,
)
from pytest_kscen.embedded.apiserver.rules.volume_sources import validate_no_backsteps
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause
from pytest_kscen.objects.quantities import canonical

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
ENV_FIELDS = (
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
        *ENV_FIELDS,
        "metadata.annotations",
        "metadata.labels",
        "spec.restartPolicy",
        "spec.schedulerName",
        "status.phase",
        "spec.host",
    }
)
RESOURCE_FIELDS = (
    *("limits.cpu", "limits.ephemeral-storage", "limits.memory"),
    *("requests.cpu", "requests.ephemeral-storage", "requests.memory"),
)
BYTE_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
DIVISORS = {
    "cpu": (("1m", "1"), "cpu"),
    "memory": (BYTE_DIVISORS, "memory"),
    "ephemeral-storage": (BYTE_DIVISORS, "local ephemeral storage"),
    "hugepages": (BYTE_DIVISORS, "hugepages"),
}
_ONE_SOURCE = (
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` "
    "or `fileKeyRef`"
)


def validate_variables(path: str, given: Sequence[Obj]) -> Causes:
    for index, variable in enumerate(given):
        here, name = f"{path}[{index}]", variable.get("name", "")
        yield from validate_required_name(f"{here}.name", name, names.env_var)
        if "valueFrom" in variable:
            inner_path = f"{here}.valueFrom"
            source = variable["valueFrom"]
            for kind, check in VARIABLE_SOURCES.items():
                if kind in source:
                    yield from check(f"{inner_path}.{kind}", source[kind])
            found = sum(kind in source for kind in VARIABLE_SOURCES)
            if not found:
                yield Cause.invalid(inner_path, "", _ONE_SOURCE)
            elif variable.get("value"):
                yield Cause.invalid(
                    inner_path, "", "may not be specified when `value` is not empty"
                )
            elif found > 1:
                yield Cause.invalid(
                    inner_path, "", "may not have more than one field specified at a time"
                )


def validate_env_from(path: str, given: Sequence[Obj]) -> Causes:
    """Yield the causes for `envFrom`, which imports all keys of ConfigMaps or Secrets, one source
    per entry.
    """
    for index, source in enumerate(given):
        here = f"{path}[{index}]"
        if source.get("prefix"):
            yield from validate_name(f"{here}.prefix", source["prefix"], names.env_var)
        found = [kind for kind in ("configMapRef", "secretRef") if kind in source]
        for kind in found:
            name = source[kind].get("name", "")
            yield from validate_required_name(
                f"{here}.{kind}.name",
                name,
                lambda name: names.dns1123_subdomain(names.as_prefix(name)),
            )
        if not found:
            yield Cause.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(found) > 1:
            yield Cause.invalid(path, "", "may not have more than one field specified at a time")


def validate_field_reference(path: str, given: Obj, allowed: Sequence[str]) -> Causes:
    """Yield the causes for a reference to a field of the pod; `allowed` lists the fields without a
    subscript.
    """
    version, field = given.get("apiVersion", ""), given.get("fieldPath", "")
    if not version:
        yield Cause.required(f"{path}.apiVersion")
    elif not field:
        yield Cause.required(f"{path}.fieldPath")
    else:
        base, opening, key = field.partition("['")
        base, key = (
            (base, key.removesuffix("']"))
            if opening and base and field.endswith("']")
            else (field, None)
        )
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
            yield from validate_name(path, name, names.label_key)
        elif field not in allowed and field != "spec.host":
            yield Cause.unsupported(f"{path}.fieldPath", field, allowed)


def validate_resource_reference(path: str, given: Obj, *, in_volume: bool = False) -> Causes:
    """Yield the causes for a reference to a container's limit or request.

    In a volume the container's name is required, since a volume belongs to no container.
    """
    resource = given.get("resource", "")
    huge = resource.startswith(("limits.hugepages-", "requests.hugepages-"))
    if in_volume and not given.get("containerName"):
        yield Cause.required(f"{path}.containerName")
    elif not resource:
        yield Cause.required(f"{path}.resource")
    elif resource not in RESOURCE_FIELDS and not huge:
        yield Cause.unsupported(f"{path}.resource", resource, RESOURCE_FIELDS)
    divisor = canonical(given.get("divisor", "0"))
    kind = "hugepages" if huge else resource.partition(".")[2]
    if divisor != "0" and kind in DIVISORS and divisor not in DIVISORS[kind][0]:
        allowed, message = DIVISORS[kind]
        listed = " and ".join(allowed) if kind == "cpu" else ", ".join(allowed)
        detail = f"only divisor's values {listed} are supported with the {message} resource"
        yield Cause.invalid(f"{path}.divisor", resource, detail)


def _validate_key_reference(path: str, given: Obj) -> Causes:
    """Yield the causes for a reference to one key of a ConfigMap or Secret."""
    yield from validate_name(f"{path}.name", given.get("name", ""), names.dns1123_subdomain)
    yield from validate_required_name(f"{path}.key", given.get("key"), names.config_key)


def _validate_file_key_reference(path: str, given: Obj) -> Causes:
    yield from validate_required_name(f"{path}.key", given.get("key"), names.env_var)
    yield from validate_required_name(
        f"{path}.volumeName", given.get("volumeName"), names.dns1123_label
    )
    if given.get("path"):
        yield from validate_no_backsteps(f"{path}.path", given["path"])
    else:
        yield Cause.required(f"{path}.path")


VARIABLE_SOURCES: dict[str, Validator] = {
    "fieldRef": lambda path, given: validate_field_reference(path, given, ENV_FIELDS),
    "resourceFieldRef": validate_resource_reference,
    "configMapKeyRef": _validate_key_reference,
    "secretKeyRef": _validate_key_reference,
    "fileKeyRef": _validate_file_key_reference,
}
