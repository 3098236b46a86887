"""Resolve a container's environment: variables from ConfigMaps, Secrets, the pod and the node.

Called by the container's worker before each run, and by `volumes` for the downward API.
"""

from __future__ import annotations

import base64
import math
import re
from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.quantities import parse
from pytest_kscen.objects.resources import CONFIG_MAPS, SECRETS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj, Resource

_REFERENCE = re.compile(r"\$\$|\$\((?P<name>[-._a-zA-Z][-._a-zA-Z0-9]*)\)")
_KEYED = re.compile(r"metadata\.(?P<kind>labels|annotations)\['(?P<key>[^']*)'\]")


class MissingReferenceError(Exception):
    """ConfigMap, Secret or key that a pod requires and that does not exist. The kubelet reports
    it and retries.
    """


async def environment_of(api: Api, pod: Obj, container: Obj, allocatable: Obj) -> dict[str, str]:
    namespace = pod["metadata"].get("namespace", "")
    found: dict[str, str] = {"HOSTNAME": pod["spec"].get("hostname") or pod["metadata"]["name"]}
    for source in container.get("envFrom") or ():
        for kind, resource in (("configMapRef", CONFIG_MAPS), ("secretRef", SECRETS)):
            if reference := source.get(kind):
                data = await load_data(api, resource, reference, namespace) or {}
                found |= {source.get("prefix", "") + key: value for key, value in data.items()}
    for variable in container.get("env") or ():
        value = await _variable_value(api, pod, container, allocatable, variable)
        if value is not None:
            found[variable["name"]] = expand(value, found)
    return found


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` in a value, command or argument. Unknown names are kept, and
    `$$` becomes `$`.
    """
    if "$" not in text:
        return text

    def replacement(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else variables.get(match["name"], match[0])

    return _REFERENCE.sub(replacement, text)


async def load_data(
    api: Api, resource: Resource, reference: Obj, namespace: str
) -> dict[str, str] | None:
    """Return the data of a ConfigMap or Secret as text, or None if it is optional and missing.
    Costs one request.
    """
    name = reference.get("name") or reference.get("secretName") or ""
    try:
        obj = await api.get(resource, name, namespace)
    except NotFound as error:
        if reference.get("optional"):
            return None
        raise MissingReferenceError(f'{resource.kind.lower()} "{name}" not found') from error
    return decode_data(obj)


def decode_data(obj: Obj) -> dict[str, str]:
    if obj["kind"] == "Secret":
        data = obj.get("data") or {}
        return {
            key: base64.b64decode(value).decode(errors="replace") for key, value in data.items()
        }
    return dict(obj.get("data") or {})


async def _variable_value(
    api: Api, pod: Obj, container: Obj, allocatable: Obj, variable: Obj
) -> str | None:
    source = variable.get("valueFrom")
    if not source:
        return str(variable.get("value", ""))
    for kind, resource in (("configMapKeyRef", CONFIG_MAPS), ("secretKeyRef", SECRETS)):
        if reference := source.get(kind):
            namespace = pod["metadata"].get("namespace", "")
            data = await load_data(api, resource, reference, namespace)
            if data is not None and reference["key"] not in data and not reference.get("optional"):
                place = f"{namespace}/{reference['name']}"
                raise MissingReferenceError(
                    f"couldn't find key {reference['key']} in {resource.kind} {place}"
                )
            return data.get(reference["key"]) if data else None
    if reference := source.get("fieldRef"):
        return downward_field(pod, reference["fieldPath"])
    if reference := source.get("resourceFieldRef"):
        return downward_resource(pod, container, reference, allocatable)
    return ""


def downward_field(pod: Obj, path: str) -> str:
    """Return a field of the pod as the downward API shows it; labels and annotations as one
    line each.
    """
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    if keyed := _KEYED.fullmatch(path):
        return str((metadata.get(keyed["kind"]) or {}).get(keyed["key"], ""))
    if path in {"metadata.labels", "metadata.annotations"}:
        pairs = sorted((metadata.get(path.rpartition(".")[2]) or {}).items())
        return "\n".join(f'{key}="{value}"' for key, value in pairs)
    if path in {"status.podIPs", "status.hostIPs"}:
        return ",".join(entry["ip"] for entry in status.get(path.rpartition(".")[2]) or ())
    part, _, name = path.partition(".")
    return str({"metadata": metadata, "spec": spec, "status": status}.get(part, {}).get(name, ""))


def downward_resource(pod: Obj, container: Obj, reference: Obj, allocatable: Obj) -> str:
    """Return a request or limit in units of the divisor, rounded up. A missing limit is the
    node's allocatable amount.
    """
    name = reference.get("containerName")
    if name:
        container = next(
            (one for one in pod["spec"]["containers"] if one["name"] == name), container
        )
    which, _, resource = reference["resource"].partition(".")
    quantities = (container.get("resources") or {}).get(which) or {}
    quantity = quantities.get(resource) or (
        allocatable.get(resource, "0") if which == "limits" else "0"
    )
    divisor = parse(reference.get("divisor") or "1").nanos or parse("1").nanos
    return str(math.ceil(parse(quantity).nanos / divisor))
