"""What the kinds allow and still warn of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.rules.pods import warnings as pods
from pytest_kscen.objects import names, quantities
from pytest_kscen.objects.errors import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.objects.resources import Obj

MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"
INGRESS_CLASS = "kubernetes.io/ingress.class"
TOPOLOGY_HINTS, TOPOLOGY_MODE = (
    "service.kubernetes.io/topology-aware-hints",
    "service.kubernetes.io/topology-mode",
)
STORAGE_CLASS, MOUNT_OPTIONS = (
    "volume.beta.kubernetes.io/storage-class",
    "volume.beta.kubernetes.io/mount-options",
)
MANY_COMPLETIONS, MANY_AT_ONCE = 100_000, 10_000
COUNTED = ("cpu", "memory", "ephemeral-storage")
IGNORED = {
    "loadBalancerIP": "spec.loadBalancerIP",
    "externalIPs": "spec.externalIPs",
    "sessionAffinity": "spec.SessionAffinity",
}
_NAME = (
    "metadata.name: this is used in Pod names and hostnames, which can result in surprising "
    "behavior; a DNS label is recommended"
)
_CLASS = 'deprecated since v1.8; use "storageClassName" attribute instead'
_RECYCLE = (
    "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use "
    "dynamic provisioning."
)
_REVISIONS = (
    "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value "
    ">= 0 is recommended"
)
_ZONE = (
    "use timeZone instead, see "
    "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
)
_TOKENS = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, "
    "set to true to prevent possible logging of tokens in volume attributes"
)
_COMPLETIONS = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism "
    "higher than 10^4, "
    "Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
)


def _annotated(obj: Obj, name: str) -> bool:
    return name in (obj["metadata"].get("annotations") or ())


def _moved(new: Obj, old: Obj | None) -> bool:
    return old is None or new["metadata"].get("generation") != old["metadata"].get("generation")


def _pod_names(obj: Obj, old: Obj | None) -> Iterator[str]:
    if old is None and (complaints := names.dns1123_label(obj["metadata"]["name"])):
        yield f"{_NAME}: [{' '.join(complaints)}]"


def _workload(new: Obj, old: Obj | None) -> Iterator[str]:
    yield from _pod_names(new, old)
    if _moved(new, old) and new["spec"].get("template"):
        yield from pods.of_template("spec.template", new["spec"]["template"])


def _daemon_set(new: Obj, old: Obj | None) -> Iterator[str]:
    if old is None or new["spec"]["template"] != old["spec"]["template"]:
        yield from pods.of_template("spec.template", new["spec"]["template"])


def _stateful_set(new: Obj, old: Obj | None) -> Iterator[str]:
    if _moved(new, old):
        yield from pods.of_template("spec.template", new["spec"]["template"])
    for place, claim in enumerate(new["spec"].get("volumeClaimTemplates") or ()):
        yield from pods.of_claim(
            f"spec.volumeClaimTemplates[{place}]{'' if old is None else '.Spec'}", claim["spec"]
        )
    if new["spec"].get("revisionHistoryLimit", 0) < 0:
        yield _REVISIONS


def _job_spec(path: str, spec: Obj) -> Iterator[str]:
    many = (
        spec.get("completions", 0) > MANY_COMPLETIONS and spec.get("parallelism", 0) > MANY_AT_ONCE
    )
    if spec.get("completionMode") == "Indexed" and many:
        yield f"{path}: {_COMPLETIONS}"
    yield from pods.of_template(f"{path}.template", spec["template"])


def _job(new: Obj, old: Obj | None) -> Iterator[str]:
    yield from _pod_names(new, old)
    if _moved(new, old):
        yield from _job_spec("spec", new["spec"])


def _cron_job(new: Obj, old: Obj | None) -> Iterator[str]:
    yield from _pod_names(new, old)
    if _moved(new, old):
        yield from _job_spec("spec.jobTemplate.spec", new["spec"]["jobTemplate"]["spec"])
    if old is not None and "TZ" in new["spec"].get("schedule", ""):
        yield f"cannot use TZ or CRON_TZ in spec.spec.schedule, {_ZONE}"


def _pod_template(new: Obj, old: Obj | None) -> Iterator[str]:
    if _moved(new, old):
        yield from pods.of_template("template", new["template"])


def _service(new: Obj, _: Obj | None) -> Iterator[str]:
    spec, headless = new["spec"], new["spec"].get("clusterIP") == "None"
    elsewhere = spec.get("type") == "ExternalName"
    if _annotated(new, TOPOLOGY_HINTS):
        yield f"annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"
    for field, shown in IGNORED.items() if headless else ():
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


def _ingress(new: Obj, old: Obj | None) -> Iterator[str]:
    if old is None and _annotated(new, INGRESS_CLASS) and "ingressClassName" not in new["spec"]:
        yield (
            f"annotation {quoted(INGRESS_CLASS)} is deprecated, please use "
            "'spec.ingressClassName' instead"
        )


def _volume(new: Obj, _: Obj | None) -> Iterator[str]:
    spec = new["spec"]
    old = {
        STORAGE_CLASS: _CLASS,
        MOUNT_OPTIONS: 'deprecated since v1.31; use "mountOptions" attribute instead',
    }
    yield from (
        f"metadata.annotations[{name}]: {words}"
        for name, words in old.items()
        if _annotated(new, name)
    )
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        yield f"spec.persistentVolumeReclaimPolicy: {_RECYCLE}"
    for place, term in enumerate(
        spec.get("nodeAffinity", {}).get("required", {}).get("nodeSelectorTerms") or ()
    ):
        yield from pods.old_terms(
            f"spec.nodeAffinity.required.nodeSelectorTerms[{place}]", term, judged=False
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
            yield f"spec.{pods.SHOWN.get(kind, kind)}: {pods.OLD_VOLUMES[kind]}"


def _claim(new: Obj, _: Obj | None) -> Iterator[str]:
    if _annotated(new, STORAGE_CLASS):
        yield f"metadata.annotations[{STORAGE_CLASS}]: {_CLASS}"
    yield from pods.of_claim("spec", new["spec"])


def _storage_class(new: Obj, _: Obj | None) -> Iterator[str]:
    for place, term in enumerate(new.get("allowedTopologies") or ()):
        for number, part in enumerate(term.get("matchLabelExpressions") or ()):
            here = f"allowedTopologies[{place}].matchLabelExpressions[{number}].key"
            yield from pods.old_label(here, part.get("key", ""), named=False)


def _runtime_class(new: Obj, _: Obj | None) -> Iterator[str]:
    for key in new.get("scheduling", {}).get("nodeSelector") or ():
        yield from pods.old_label("scheduling.nodeSelector", key, named=False)


def _driver(new: Obj, old: Obj | None) -> Iterator[str]:
    tokens = new["spec"].get("tokenRequests")
    changed = old is None or tokens != old["spec"].get("tokenRequests")
    if tokens and changed and "serviceAccountTokenInSecrets" not in new["spec"]:
        yield _TOKENS


def _node(new: Obj, _: Obj | None) -> Iterator[str]:
    if (new.get("spec") or {}).get("externalID"):
        yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"


def _quota(new: Obj, old: Obj | None) -> Iterator[str]:
    hard = new["spec"].get("hard") or {} if old is None else {}
    for name in COUNTED:
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


def _account(new: Obj, old: Obj | None) -> Iterator[str]:
    if _annotated(new, MOUNTABLE) and not (old and _annotated(old, MOUNTABLE)):
        why = (
            "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        )
        yield f"metadata.annotations[{MOUNTABLE}]: {why}"


def _slice(new: Obj, old: Obj | None) -> Iterator[str]:
    if old is None and new.get("addressType") == "FQDN":
        yield "spec.addressType: FQDN endpoints are deprecated"


WARNINGS: dict[tuple[str, str], Callable[[Obj, Obj | None], Iterable[str]]] = {
    ("", "pods"): pods.of_pod,
    ("", "podtemplates"): _pod_template,
    ("", "replicationcontrollers"): _workload,
    ("apps", "deployments"): _workload,
    ("apps", "replicasets"): _workload,
    ("apps", "daemonsets"): _daemon_set,
    ("apps", "statefulsets"): _stateful_set,
    ("batch", "jobs"): _job,
    ("batch", "cronjobs"): _cron_job,
    ("", "services"): _service,
    ("", "nodes"): _node,
    ("", "resourcequotas"): _quota,
    ("", "serviceaccounts"): _account,
    ("", "persistentvolumes"): _volume,
    ("", "persistentvolumeclaims"): _claim,
    ("discovery.k8s.io", "endpointslices"): _slice,
    ("networking.k8s.io", "ingresses"): _ingress,
    ("node.k8s.io", "runtimeclasses"): _runtime_class,
    ("storage.k8s.io", "csidrivers"): _driver,
    ("storage.k8s.io", "storageclasses"): _storage_class,
}
