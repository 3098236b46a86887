"""Defaults of pods and pod templates.

A template gets all defaults but those that belong to a real pod, such as requests derived from
limits.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.rules.claims import default_claim_spec
from pytest_kscen.embedded.apiserver.rules.fields import (
    round_quantities,
    round_resources,
    set_defaults,
)
from pytest_kscen.embedded.apiserver.rules.pods.resources import default_pod_resources

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj


_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)"
_DOMAIN = rf"(?:{_HOST}(?:\.{_HOST})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_TAG = r":(?P<tag>\w[\w.-]{0,127})"
_DIGEST = r"@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_DOMAIN}/)?{_PART}(?:/{_PART})*)(?:{_TAG})?(?:{_DIGEST})?", re.ASCII
)
_IDENTIFIER = re.compile("[a-f0-9]{64}")
_MAX_NAME_LENGTH = 255


@functools.lru_cache(maxsize=4096)
def default_pull_policy(reference: str) -> str:
    """Return the default `imagePullPolicy` of an image reference: Always for the tag `latest`,
    stated or implied, otherwise IfNotPresent.

    Malformed references get IfNotPresent, as in the real server.
    """
    found = _REFERENCE.fullmatch(reference)
    if found is None or _IDENTIFIER.fullmatch(reference) or len(found["name"]) > _MAX_NAME_LENGTH:
        return "IfNotPresent"
    latest = found["tag"] == "latest" or not (found["tag"] or found["digest"])
    return "Always" if latest else "IfNotPresent"


SPEC_DEFAULTS = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "schedulerName": "default-scheduler",
}
CONTAINER_DEFAULTS = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
PROBE_DEFAULTS = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}
HTTP_GET_DEFAULTS = {"path": "/", "scheme": "HTTP"}
PROBE_FIELDS = ("livenessProbe", "readinessProbe", "startupProbe")
CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")
FILE_MODE_DEFAULTS = {"defaultMode": 0o644}
VOLUME_DEFAULTS: dict[str, dict[str, Any]] = {
    "secret": FILE_MODE_DEFAULTS,
    "configMap": FILE_MODE_DEFAULTS,
    "downwardAPI": FILE_MODE_DEFAULTS,
    "projected": FILE_MODE_DEFAULTS,
    "hostPath": {"type": ""},
}
RETIRED_ANNOTATIONS = frozenset(
    f"pod.{context}.kubernetes.io/{what}"
    for context in ("alpha", "beta")
    for what in ("init-containers", "init-container-statuses")
)


def default_pod(pod: Obj) -> None:
    spec = pod["spec"]
    default_pod_spec(spec)
    set_defaults(spec, {"enableServiceLinks": True})
    for name in ("containers", "initContainers"):
        for container in spec.get(name) or ():
            if container.get("resources"):
                resources = container["resources"]
                limits = resources.get("limits")
                if not limits:
                    continue
                requests = resources.get("requests") or {}
                missing = {
                    name: quantity for name, quantity in limits.items() if name not in requests
                }
                if missing:
                    resources["requests"] = {**requests, **missing}
    if "resources" in spec:
        default_pod_resources(spec)
    if spec.get("hostNetwork"):
        _set_host_ports(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    drop_retired_annotations(pod["metadata"])
    if "status" in pod:
        _default_pod_ips(pod["status"])


def default_template(template: Obj | None) -> None:
    if template:
        default_pod_spec(template["spec"])
        if template.get("metadata"):
            drop_retired_annotations(template["metadata"])


def default_pod_spec(spec: Obj) -> None:
    """Set the defaults that pods and pod templates share. Quantities are rounded up to thousandths
    on the way.
    """
    set_defaults(spec, SPEC_DEFAULTS)
    if "securityContext" not in spec:
        spec["securityContext"] = {}
    set_account_alias(spec)
    for volume in spec.get("volumes") or ():
        _default_pod_volume(volume)
    for name in CONTAINER_LISTS:
        for container in spec.get(name) or ():
            _default_container(container)
    if "overhead" in spec:
        round_quantities(spec["overhead"])
    round_resources(spec.get("resources"))


def set_account_alias(spec: Obj) -> None:
    """Copy `serviceAccountName` to its deprecated alias `serviceAccount`, or the reverse if only
    the alias is set.
    """
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account and (spec.get("serviceAccount") != account or "serviceAccountName" not in spec):
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def drop_retired_annotations(metadata: Obj) -> None:
    """Remove the annotations that held init containers before they had a field."""
    notes = metadata.get("annotations")
    if notes and not RETIRED_ANNOTATIONS.isdisjoint(notes):
        metadata["annotations"] = {
            name: value for name, value in notes.items() if name not in RETIRED_ANNOTATIONS
        }


def _default_container(container: Obj) -> None:
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = default_pull_policy(container.get("image", ""))
    set_defaults(container, CONTAINER_DEFAULTS)
    round_resources(container.get("resources"))
    for variable in container.get("env") or ():
        _default_field_reference(variable.get("valueFrom"))
    for name in PROBE_FIELDS:
        if name in container:
            set_defaults(container[name], PROBE_DEFAULTS)
            _default_http_get(container[name])
    if "lifecycle" in container:
        for hook in ("postStart", "preStop"):
            _default_http_get(container["lifecycle"].get(hook))


def _default_http_get(handler: Obj | None) -> None:
    if handler and "httpGet" in handler:
        set_defaults(handler["httpGet"], HTTP_GET_DEFAULTS)


def _default_field_reference(source: Obj | None) -> None:
    if source and "fieldRef" in source:
        set_defaults(source["fieldRef"], {"apiVersion": "v1"})


def _default_pod_volume(volume: Obj) -> None:
    if len(volume) == 1 and "name" in volume:
        volume["emptyDir"] = {}
    for name, defaults in VOLUME_DEFAULTS.items():
        if name in volume:
            set_defaults(volume[name], defaults)
    for file in volume.get("downwardAPI", {}).get("items") or ():
        _default_field_reference(file)
    for source in volume.get("projected", {}).get("sources") or ():
        for file in source.get("downwardAPI", {}).get("items") or ():
            _default_field_reference(file)
        if "serviceAccountToken" in source:
            set_defaults(source["serviceAccountToken"], {"expirationSeconds": 3600})
    if "ephemeral" in volume and "volumeClaimTemplate" in volume["ephemeral"]:
        default_claim_spec(volume["ephemeral"]["volumeClaimTemplate"]["spec"])
    if "image" in volume:
        set_defaults(
            volume["image"],
            {"pullPolicy": default_pull_policy(volume["image"].get("reference", ""))},
        )


def _set_host_ports(spec: Obj) -> None:
    """Set the host ports of a pod on the host network to its container ports.

    Containers may belong to the stored pod, so they are replaced, never changed.
    """
    for name in ("containers", "initContainers"):
        if spec.get(name):
            spec[name] = [
                {
                    **container,
                    "ports": [
                        {**port, "hostPort": port.get("hostPort", port["containerPort"])}
                        for port in container["ports"]
                    ],
                }
                if any("hostPort" not in port for port in container.get("ports") or ())
                else container
                for container in spec[name]
            ]


def _default_pod_ips(status: Obj) -> None:
    """Set `podIP` from `podIPs` or the reverse. Where the two differ, `podIP` replaces the list."""
    single, several = status.get("podIP"), status.get("podIPs")
    if single and (not several or several[0].get("ip") != single):
        status["podIPs"] = [{"ip": single}]
    elif several and not single:
        status["podIP"] = several[0].get("ip", "")
