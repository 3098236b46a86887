"""Built-in admission plugins in Kubernetes' order.

Holds the small ones: NamespaceLifecycle, Priority, DefaultTolerationSeconds, TaintNodesByCondition,
DefaultStorageClass, DefaultIngressClass, StorageObjectInUseProtection and
PersistentVolumeClaimResize. `standard_admission` builds the chain of a cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.admission import limit_ranges, service_accounts
from pytest_kscen.embedded.apiserver.admission.chain import (
    CREATE,
    DELETE,
    UPDATE,
    Admission,
    AdmissionPlugin,
)
from pytest_kscen.embedded.apiserver.admission.quota import QuotaAdmission
from pytest_kscen.embedded.apiserver.admission.webhooks import Webhooks
from pytest_kscen.objects import quantities
from pytest_kscen.objects.errors import Forbidden, about, not_found
from pytest_kscen.objects.resources import (
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    PRIORITY_CLASSES,
    SERVICES,
    Resource,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kscen.embedded.apiserver.admission.chain import Review
    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.objects.resources import Obj


PROTECTED_NAMESPACES = {"default", "kube-public", "kube-system"}
ACCESS_REVIEWS = ("authorization.k8s.io", "localsubjectaccessreviews")


def require_live_namespace(review: Review) -> None:
    """Refuse creations in a namespace that is missing or terminating (NamespaceLifecycle).

    Runs first. Access reviews are allowed in a terminating namespace, as in Kubernetes.
    """
    namespace, resource = review.request.namespace, review.request.resource
    if not namespace or not resource.namespaced:
        return
    found = review.core.store.get(("", "namespaces", "", namespace))
    if found is None:
        raise not_found(NAMESPACES, namespace)
    if (
        found["metadata"].get("deletionTimestamp")
        and (resource.group, resource.plural) != ACCESS_REVIEWS
    ):
        why = (
            f"unable to create new content in namespace {namespace} because it is being terminated"
        )
        refusal = review.forbidden(why)
        message = f"namespace {namespace} is being terminated"
        cause = {
            "reason": "NamespaceTerminating",
            "message": message,
            "field": "metadata.namespace",
        }
        raise Forbidden(refusal.message, details={**refusal.status["details"], "causes": [cause]})


def protect_namespaces(review: Review) -> None:
    """Refuse to delete default, kube-system and kube-public (NamespaceLifecycle)."""
    if review.name in PROTECTED_NAMESPACES:
        raise Forbidden(
            f'namespaces "{review.name}" is forbidden: this namespace may not be deleted',
            details=about(NAMESPACES, review.name),
        )


NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
TOLERATION_SECONDS = 300  # seconds
DEFAULT_TOLERATIONS: list[Obj] = [
    {
        "key": key,
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": TOLERATION_SECONDS,
    }
    for key in (NOT_READY, UNREACHABLE)
]
NOT_READY_TAINT: Obj = {"key": NOT_READY, "effect": "NoSchedule"}


def add_default_tolerations(review: Review) -> None:
    """Tolerate a failing node for 300 seconds (DefaultTolerationSeconds)."""
    assert review.new is not None
    given = review.new["spec"].get("tolerations") or []
    more = (
        [
            usual
            for usual in DEFAULT_TOLERATIONS
            if not any(
                each.get("key") in {None, "", usual["key"]}
                and each.get("effect") in {None, "", "NoExecute"}
                for each in given
            )
        ]
        if given
        else DEFAULT_TOLERATIONS
    )
    if more:
        review.new["spec"] = {**review.new["spec"], "tolerations": [*given, *more]}


def taint_new_node(review: Review) -> None:
    """Taint a new node as not ready until its controller clears it (TaintNodesByCondition)."""
    assert review.new is not None
    spec = review.new.get("spec") or {}
    taints = spec.get("taints") or []
    if not any(
        taint["key"] == NOT_READY and taint.get("effect") == "NoSchedule" for taint in taints
    ):
        review.new["spec"] = {**spec, "taints": [*taints, NOT_READY_TAINT]}


SCHEDULING_GROUP, PLURAL = "scheduling.k8s.io", "priorityclasses"
DEFAULT_PREEMPTION_POLICY = "PreemptLowerPriority"
SYSTEM_CLASSES: tuple[Obj, ...] = (
    {
        "metadata": {"name": "system-node-critical"},
        "value": 2000001000,
        "description": (
            "Used for system critical pods that must not be moved from their current node."
        ),
    },
    {
        "metadata": {"name": "system-cluster-critical"},
        "value": 2000000000,
        "description": (
            "Used for system critical pods that must run in the cluster, but can be moved to "
            "another node if necessary."
        ),
    },
)
_SYSTEM = {each["metadata"]["name"]: each for each in SYSTEM_CLASSES}
PRIORITY_PROVIDED = (
    "must not be provided in pod spec; priority admission controller computed {} from the "
    "given PriorityClass name"
)


def set_priority(review: Review) -> None:
    """Set a new pod's priority from its PriorityClass; an updated pod keeps its own (Priority).

    A pod that names no class gets the global default class, or priority 0. A stated priority that
    differs from the computed one is refused.
    """
    assert review.new is not None
    spec = review.new["spec"]
    if review.old is not None:
        was = review.old["spec"]
        kept = {
            name: was[name]
            for name in ("priority", "preemptionPolicy")
            if name in was and name not in spec
        }
        if kept:
            review.new["spec"] = {**spec, **kept}
        return
    name = spec.get("priorityClassName") or _name_of_default(review.core)
    key = SCHEDULING_GROUP, PLURAL, "", name
    found = (review.core.store.get(key) or _SYSTEM.get(name)) if name else {"value": 0}
    if found is None:
        raise review.forbidden(f"no PriorityClass with name {name} was found")
    priority, policy = found["value"], found.get("preemptionPolicy") or DEFAULT_PREEMPTION_POLICY
    _refuse_other(review, "integer value of priority", spec.get("priority"), priority)
    _refuse_other(review, "string value of PreemptionPolicy", spec.get("preemptionPolicy"), policy)
    named = {"priorityClassName": name} if name else {}
    review.new["spec"] = {**spec, **named, "priority": priority, "preemptionPolicy": policy}


def _refuse_other(review: Review, what: str, given: Any, computed: Any) -> None:
    if given is not None and given != computed:
        raise review.forbidden(f"the {what} ({given}) {PRIORITY_PROVIDED.format(computed)}")


def _name_of_default(core: Core) -> str:
    defaults = [
        each for each in core.store.all(SCHEDULING_GROUP, PLURAL) if each.get("globalDefault")
    ]
    found = min(defaults, key=lambda each: int(each["value"]), default=None)
    return str(found["metadata"]["name"]) if found else ""


def require_single_default(review: Review) -> None:
    assert review.new is not None
    if not review.new.get("globalDefault"):
        return
    name = _name_of_default(review.core)
    if name and name != review.new["metadata"]["name"]:
        raise review.forbidden(
            f"PriorityClass {name} is already marked as default. Only one default can exist"
        )


def protect_system_classes(review: Review) -> None:
    if review.name in _SYSTEM:
        raise review.forbidden("this is a system priority class and cannot be deleted")


STORAGE_GROUP, CLASSES = "storage.k8s.io", "storageclasses"
IS_DEFAULT = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
IS_DEFAULT_INGRESS = ("ingressclass.kubernetes.io/is-default-class",)
INGRESS_CLASS = "kubernetes.io/ingress.class"
NOT_BOUND = "Only bound persistent volume claims can be expanded"
RESIZE_UNSUPPORTED = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions "
    "the pvc must support resize"
)


def default_class(review: Review) -> None:
    """Set the default StorageClass in a claim that names none (DefaultStorageClass).

    Of several default classes the newest counts; an empty class name means no class at all.
    """
    assert review.new is not None
    spec = review.new["spec"]
    if spec.get("storageClassName") is not None or BETA_CLASS in _annotations(review.new):
        return
    if name := _default_class(review.core.store.all(STORAGE_GROUP, CLASSES), IS_DEFAULT):
        review.new["spec"] = {**spec, "storageClassName": name}


def default_ingress_class(review: Review) -> None:
    """Set the newest default IngressClass in an ingress that names none (DefaultIngressClass)."""
    assert review.new is not None
    spec = review.new.get("spec") or {}
    if spec.get("ingressClassName") is not None or INGRESS_CLASS in _annotations(review.new):
        return
    if name := _default_class(
        review.core.store.all("networking.k8s.io", "ingressclasses"), IS_DEFAULT_INGRESS
    ):
        review.new["spec"] = {**spec, "ingressClassName": name}


def _default_class(classes: Iterable[Obj], marks: tuple[str, ...]) -> str:
    """Return the newest class that is marked as default; within one second the first by name."""
    marked = [
        each for each in classes if any(_annotations(each).get(mark) == "true" for mark in marks)
    ]
    marked.sort(key=lambda each: str(each["metadata"]["name"]))
    newest = max(marked, key=lambda each: str(each["metadata"]["creationTimestamp"]), default=None)
    return str(newest["metadata"]["name"]) if newest else ""


def _annotations(obj: Obj) -> Obj:
    return obj["metadata"].get("annotations") or {}


def finalizer_adder(finalizer: str) -> Callable[[Review], None]:
    def protect(review: Review) -> None:
        assert review.new is not None
        metadata = review.new["metadata"]
        given = metadata.get("finalizers") or []
        if finalizer not in given:
            metadata["finalizers"] = [*given, finalizer]

    return protect


def check_resize(review: Review) -> None:
    """Refuse to grow a claim that is unbound or whose class forbids it
    (PersistentVolumeClaimResize).

    Only a larger storage request counts; shrinking is the kind's own rule.
    """
    old, new = review.old, review.new
    if old is None or new is None or quantities.compare(_size(new), _size(old)) <= 0:
        return
    if (old.get("status") or {}).get("phase") != "Bound":
        raise review.forbidden(NOT_BOUND)
    name = _class_of(new)
    found = (
        review.core.store.get((STORAGE_GROUP, CLASSES, "", name))
        if name and name == _class_of(old)
        else None
    )
    if found is None or not found.get("allowVolumeExpansion"):
        raise review.forbidden(RESIZE_UNSUPPORTED)


def _size(claim: Obj) -> str:
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    return str(requests.get("storage", "0"))


def _class_of(claim: Obj) -> str:
    return str(_annotations(claim).get(BETA_CLASS) or claim["spec"].get("storageClassName") or "")


INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")
ATTRIBUTES_CLASSES = Resource(
    "storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass", namespaced=False
)

PLUGINS = (
    AdmissionPlugin(mutate=require_live_namespace, operations=(CREATE,), subresources=None),
    AdmissionPlugin((NAMESPACES,), mutate=protect_namespaces, operations=(DELETE,)),
    AdmissionPlugin(
        (PODS,), limit_ranges.set_defaults, limit_ranges.validate_pod, operations=(CREATE,)
    ),
    AdmissionPlugin(
        (PODS,), validate=limit_ranges.validate_pod, operations=(UPDATE,), subresources=("resize",)
    ),
    AdmissionPlugin((PERSISTENT_VOLUME_CLAIMS,), validate=limit_ranges.validate_claim),
    AdmissionPlugin(
        (PODS,),
        service_accounts.set_service_account,
        service_accounts.validate_pod,
        operations=(CREATE,),
    ),
    AdmissionPlugin((NODES,), taint_new_node, operations=(CREATE,)),
    AdmissionPlugin((PODS,), set_priority),
    AdmissionPlugin((PRIORITY_CLASSES,), validate=require_single_default),
    AdmissionPlugin((PRIORITY_CLASSES,), validate=protect_system_classes, operations=(DELETE,)),
    AdmissionPlugin((PODS,), add_default_tolerations),
    AdmissionPlugin((PERSISTENT_VOLUME_CLAIMS,), default_class, operations=(CREATE,)),
    AdmissionPlugin(
        (PERSISTENT_VOLUME_CLAIMS,),
        finalizer_adder("kubernetes.io/pvc-protection"),
        operations=(CREATE,),
    ),
    AdmissionPlugin(
        (PERSISTENT_VOLUMES,), finalizer_adder("kubernetes.io/pv-protection"), operations=(CREATE,)
    ),
    AdmissionPlugin(
        (ATTRIBUTES_CLASSES,), finalizer_adder("kubernetes.io/vac-protection"), operations=(CREATE,)
    ),
    AdmissionPlugin((PERSISTENT_VOLUME_CLAIMS,), validate=check_resize, operations=(UPDATE,)),
    AdmissionPlugin((INGRESSES,), default_ingress_class, operations=(CREATE,)),
)


def standard_admission() -> Admission:
    """Return a new chain with all built-in plugins and webhooks, for one cluster.

    Quotas keep counts per cluster, so a chain must not be shared.
    """
    quotas = QuotaAdmission()
    return Admission(
        PLUGINS,
        (
            AdmissionPlugin(validate=quotas.enforce, operations=(CREATE,)),
            AdmissionPlugin(
                (PERSISTENT_VOLUME_CLAIMS, SERVICES), validate=quotas.enforce, operations=(UPDATE,)
            ),
            AdmissionPlugin(
                (PODS,), validate=quotas.enforce, operations=(UPDATE,), subresources=("resize",)
            ),
            AdmissionPlugin(
                (PODS,), validate=quotas.enforce_when_terminating, operations=(UPDATE,)
            ),
        ),
        Webhooks(),
    )
