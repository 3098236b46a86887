"""Warnings of all built-in kinds but pods: valid content that is deprecated or probably a mistake.

A function gets the new and the old object (None at creation). It yields the real server's texts,
which go to the client as Warning headers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.rules.checks import registered
from pytest_kscen.embedded.apiserver.rules.pods import warnings as pods
from pytest_kscen.objects import names, quantities
from pytest_kscen.objects.errors import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.objects.resources import Obj

ENFORCE_MOUNTABLE_SECRETS = "kubernetes.io/enforce-mountable-secrets"
INGRESS_CLASS = "kubernetes.io/ingress.class"
TOPOLOGY_HINTS, TOPOLOGY_MODE = (
    "service.kubernetes.io/topology-aware-hints",
    "service.kubernetes.io/topology-mode",
)
STORAGE_CLASS, MOUNT_OPTIONS = (
    "volume.beta.kubernetes.io/storage-class",
    "volume.beta.kubernetes.io/mount-options",
)
LARGE_COMPLETIONS, LARGE_PARALLELISM = 100_000, 10_000
QUOTA_RESOURCES = ("cpu", "memory", "ephemeral-storage")
IGNORED_BY_HEADLESS = {
    "loadBalancerIP": "spec.loadBalancerIP",
    "externalIPs": "spec.externalIPs",
    "sessionAffinity": "spec.SessionAffinity",
}
_NOT_A_LABEL = (
    "metadata.name: this is used in Pod names and hostnames, which can result in surprising "
    "behavior; a DNS label is recommended"
)
_STORAGE_CLASS_DEPRECATED = 'deprecated since v1.8; use "storageClassName" attribute instead'
_RECYCLE_DEPRECATED = (
    "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use "
    "dynamic provisioning."
)
_NEGATIVE_REVISION_LIMIT = (
    "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value "
    ">= 0 is recommended"
)
_TIME_ZONE_HINT = (
    "use timeZone instead, see "
    "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
)
_TOKENS_IN_SECRETS = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, "
    "set to true to prevent possible logging of tokens in volume attributes"
)
_TOO_MANY_COMPLETIONS = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism "
    "higher than 10^4, "
    "Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
)


WARNINGS: dict[tuple[str, str], Callable[[Obj, Obj | None], Iterable[str]]] = {
    ("", "pods"): pods.warn_of_pod
}


def _has_annotation(obj: Obj, name: str) -> bool:
    return name in (obj["metadata"].get("annotations") or ())


def _generation_changed(new: Obj, old: Obj | None) -> bool:
    return old is None or new["metadata"].get("generation") != old["metadata"].get("generation")


def _warn_of_name(obj: Obj, old: Obj | None) -> Iterator[str]:
    if old is None and (faults := names.dns1123_label(obj["metadata"]["name"])):
        yield f"{_NOT_A_LABEL}: [{' '.join(faults)}]"


@registered(
    WARNINGS, ("", "replicationcontrollers"), ("apps", "deployments"), ("apps", "replicasets")
)
def _warn_of_workload(new: Obj, old: Obj | None) -> Iterator[str]:
    yield from _warn_of_name(new, old)
    if _generation_changed(new, old) and new["spec"].get("template"):
        yield from pods.warn_of_template("spec.template", new["spec"]["template"])


@registered(WARNINGS, ("apps", "daemonsets"))
def _warn_of_daemon_set(new: Obj, old: Obj | None) -> Iterator[str]:
    if old is None or new["spec"]["template"] != old["spec"]["template"]:
        yield from pods.warn_of_template("spec.template", new["spec"]["template"])


@registered(WARNINGS, ("apps", "statefulsets"))
def _warn_of_stateful_set(new: Obj, old: Obj | None) -> Iterator[str]:
    if _generation_changed(new, old):
        yield from pods.warn_of_template("spec.template", new["spec"]["template"])
    for index, claim in enumerate(new["spec"].get("volumeClaimTemplates") or ()):
        yield from pods.warn_of_claim(
            f"spec.volumeClaimTemplates[{index}]{'' if old is None else '.Spec'}", claim["spec"]
        )
    if new["spec"].get("revisionHistoryLimit", 0) < 0:
        yield _NEGATIVE_REVISION_LIMIT


def _warn_of_job_spec(path: str, spec: Obj) -> Iterator[str]:
    many = (
        spec.get("completions", 0) > LARGE_COMPLETIONS
        and spec.get("parallelism", 0) > LARGE_PARALLELISM
    )
    if spec.get("completionMode") == "Indexed" and many:
        yield f"{path}: {_TOO_MANY_COMPLETIONS}"
    yield from pods.warn_of_template(f"{path}.template", spec["template"])


@registered(WARNINGS, ("batch", "jobs"))
def _warn_of_job(new: Obj, old: Obj | None) -> Iterator[str]:
    yield from _warn_of_name(new, old)
    if _generation_changed(new, old):
        yield from _warn_of_job_spec("spec", new["spec"])


@registered(WARNINGS, ("batch", "cronjobs"))
def _warn_of_cron_job(new: Obj, old: Obj | None) -> Iterator[str]:
    yield from _warn_of_name(new, old)
    if _generation_changed(new, old):
        yield from _warn_of_job_spec("spec.jobTemplate.spec", new["spec"]["jobTemplate"]["spec"])
    if old is not None and "TZ" in new["spec"].get("schedule", ""):
        yield f"cannot use TZ or CRON_TZ in spec.spec.schedule, {_TIME_ZONE_HINT}"


@registered(WARNINGS, ("", "podtemplates"))
def _warn_of_pod_template(new: Obj, old: Obj | None) -> Iterator[str]:
    if _generation_changed(new, old):
        yield from pods.warn_of_template("template", new["template"])


@registered(WARNINGS, ("", "services"))
def _warn_of_service(new: Obj, _: Obj | None) -> Iterator[str]:
    spec, headless = new["spec"], new["spec"].get("clusterIP") == "None"
    elsewhere = spec.get("type") == "ExternalName"
    if _has_annotation(new, TOPOLOGY_HINTS):
        yield f"annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"
    for field, shown in IGNORED_BY_HEADLESS.items() if headless else ():
        if spec.get(field, "None") not in ("None", "", []):
            yield f"{shown} is ignored for headless services"
    if spec.get("externalIPs") and not headless and not elsewhere:
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if spec.get("externalIPs") and elsewhere:
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if spec.get("externalName") and not elsewhere:
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


@registered(WARNINGS, ("networking.k8s.io", "ingresses"))
def _warn_of_ingress(new: Obj, old: Obj | None) -> Iterator[str]:
    if (
        old is None
        and _has_annotation(new, INGRESS_CLASS)
        and "ingressClassName" not in new["spec"]
    ):
        yield (
            f"annotation {quoted(INGRESS_CLASS)} is deprecated, please use "
            "'spec.ingressClassName' instead"
        )


@registered(WARNINGS, ("", "persistentvolumes"))
def _warn_of_volume(new: Obj, _: Obj | None) -> Iterator[str]:
    spec = new["spec"]
    old = {
        STORAGE_CLASS: _STORAGE_CLASS_DEPRECATED,
        MOUNT_OPTIONS: 'deprecated since v1.31; use "mountOptions" attribute instead',
    }
    yield from (
        f"metadata.annotations[{name}]: {message}"
        for name, message in old.items()
        if _has_annotation(new, name)
    )
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        yield f"spec.persistentVolumeReclaimPolicy: {_RECYCLE_DEPRECATED}"
    for index, term in enumerate(
        spec.get("nodeAffinity", {}).get("required", {}).get("nodeSelectorTerms") or ()
    ):
        yield from pods.warn_of_old_node_term(
            f"spec.nodeAffinity.required.nodeSelectorTerms[{index}]", term, check_values=False
        )
    for kind in (
        "cephfs",
        "photonPersistentDisk",
        "scaleIO",
        "storageos",
        "glusterfs",
        "flocker",
        "quobyte",
        "rbd",
    ):
        if kind in spec:
            yield f"spec.{pods.GO_FIELD_NAMES.get(kind, kind)}: {pods.OLD_VOLUMES[kind]}"


@registered(WARNINGS, ("", "persistentvolumeclaims"))
def _warn_of_claim(new: Obj, _: Obj | None) -> Iterator[str]:
    if _has_annotation(new, STORAGE_CLASS):
        yield f"metadata.annotations[{STORAGE_CLASS}]: {_STORAGE_CLASS_DEPRECATED}"
    yield from pods.warn_of_claim("spec", new["spec"])


@registered(WARNINGS, ("storage.k8s.io", "storageclasses"))
def _warn_of_storage_class(new: Obj, _: Obj | None) -> Iterator[str]:
    for index, term in enumerate(new.get("allowedTopologies") or ()):
        for number, part in enumerate(term.get("matchLabelExpressions") or ()):
            here = f"allowedTopologies[{index}].matchLabelExpressions[{number}].key"
            yield from pods.warn_of_old_label(here, part.get("key", ""), named=False)


@registered(WARNINGS, ("node.k8s.io", "runtimeclasses"))
def _warn_of_runtime_class(new: Obj, _: Obj | None) -> Iterator[str]:
    for key in new.get("scheduling", {}).get("nodeSelector") or ():
        yield from pods.warn_of_old_label("scheduling.nodeSelector", key, named=False)


@registered(WARNINGS, ("storage.k8s.io", "csidrivers"))
def _warn_of_csi_driver(new: Obj, old: Obj | None) -> Iterator[str]:
    tokens = new["spec"].get("tokenRequests")
    changed = old is None or tokens != old["spec"].get("tokenRequests")
    if tokens and changed and "serviceAccountTokenInSecrets" not in new["spec"]:
        yield _TOKENS_IN_SECRETS


@registered(WARNINGS, ("", "nodes"))
def _warn_of_node(new: Obj, _: Obj | None) -> Iterator[str]:
    if (new.get("spec") or {}).get("externalID"):
        yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"


@registered(WARNINGS, ("", "resourcequotas"))
def _warn_of_quota(new: Obj, old: Obj | None) -> Iterator[str]:
    hard = new["spec"].get("hard") or {} if old is None else {}
    for name in QUOTA_RESOURCES:
        request = (
            f"requests.{name}"
            if f"requests.{name}" in hard or name not in ("cpu", "memory")
            else name
        )
        limit = f"limits.{name}"
        if request in hard and limit in hard and quantities.compare(hard[request], hard[limit]) > 0:
            yield (
                f"ResourceQuota {request} ({hard[request]}) should be less than {limit} "
                f"({hard[limit]})"
            )


@registered(WARNINGS, ("", "serviceaccounts"))
def _warn_of_service_account(new: Obj, old: Obj | None) -> Iterator[str]:
    if _has_annotation(new, ENFORCE_MOUNTABLE_SECRETS) and not (
        old and _has_annotation(old, ENFORCE_MOUNTABLE_SECRETS)
    ):
        detail = (
            "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        )
        yield f"metadata.annotations[{ENFORCE_MOUNTABLE_SECRETS}]: {detail}"


@registered(WARNINGS, ("discovery.k8s.io", "endpointslices"))
def _warn_of_endpoint_slice(new: Obj, old: Obj | None) -> Iterator[str]:
    if old is None and new.get("addressType") == "FQDN":
        yield "spec.addressType: FQDN endpoints are deprecated"
