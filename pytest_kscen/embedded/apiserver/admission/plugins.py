"""The built-in admission chain in Kubernetes' order, with the plugins NamespaceLifecycle,
Priority, DefaultTolerationSeconds, TaintNodesByCondition, DefaultStorageClass,
DefaultIngressClass, StorageObjectInUseProtection and PersistentVolumeClaimResize.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.admission import limit_ranges, service_accounts
from pytest_kscen.embedded.apiserver.admission.chain import CREATE, DELETE, UPDATE, Admission, Gate
from pytest_kscen.embedded.apiserver.admission.quota import Quotas
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
    from collections.abc import Callable, Iterable, Sequence

    from pytest_kscen.embedded.apiserver.admission.chain import Review
    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.objects.resources import Obj


IMMORTAL = {"default", "kube-public", "kube-system"}
QUESTIONS = ("authorization.k8s.io", "localsubjectaccessreviews")


def require_live_namespace(review: Review) -> None:
    """What is created needs a namespace that lives."""
    namespace, resource = review.request.namespace, review.request.resource
    if not namespace or not resource.namespaced:
        return
    found = review.core.store.get(("", "namespaces", "", namespace))
    if found is None:
        raise not_found(NAMESPACES, namespace)
    if (
        found["metadata"].get("deletionTimestamp")
        and (resource.group, resource.plural) != QUESTIONS
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
    """Some namespaces are never deleted."""
    if review.name in IMMORTAL:
        raise Forbidden(
            f'namespaces "{review.name}" is forbidden: this namespace may not be deleted',
            details=about(NAMESPACES, review.name),
        )


# What binds pods and nodes by default: a pod bears a failing node for a while, and a new node
# must first get ready.


NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
PATIENCE = 300  # seconds
USUAL: list[Obj] = [
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": PATIENCE}
    for key in (NOT_READY, UNREACHABLE)
]
TAINT: Obj = {"key": NOT_READY, "effect": "NoSchedule"}


def bear_failing_nodes(review: Review) -> None:
    """DefaultTolerationSeconds."""
    assert review.new is not None
    given = review.new["spec"].get("tolerations") or []
    more = (
        [usual for usual in USUAL if not any(_bears(each, usual["key"]) for each in given)]
        if given
        else USUAL
    )
    if more:
        review.new["spec"] = {**review.new["spec"], "tolerations": [*given, *more]}


def _bears(toleration: Obj, key: str) -> bool:
    return toleration.get("key") in {None, "", key} and toleration.get("effect") in {
        None,
        "",
        "NoExecute",
    }


def taint_new_node(review: Review) -> None:
    """TaintNodesByCondition."""
    assert review.new is not None
    spec = review.new.get("spec") or {}
    taints = spec.get("taints") or []
    if not any(
        taint["key"] == NOT_READY and taint.get("effect") == "NoSchedule" for taint in taints
    ):
        review.new["spec"] = {**spec, "taints": [*taints, TAINT]}


# Priority: a pod's class becomes a number, one class at most is everybody's, and the system's
# classes stay.


SCHEDULING_GROUP, PLURAL = "scheduling.k8s.io", "priorityclasses"
PREEMPT = "PreemptLowerPriority"
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


def prioritize(review: Review) -> None:
    """A new pod gets its class's priority; an updated one keeps its own."""
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
    found = _class(review.core, name) if name else {"value": 0}
    if found is None:
        raise review.forbidden(f"no PriorityClass with name {name} was found")
    priority, policy = found["value"], found.get("preemptionPolicy") or PREEMPT
    _refuse_other(review, "integer value of priority", spec.get("priority"), priority)
    _refuse_other(review, "string value of PreemptionPolicy", spec.get("preemptionPolicy"), policy)
    named = {"priorityClassName": name} if name else {}
    review.new["spec"] = {**spec, **named, "priority": priority, "preemptionPolicy": policy}


def _refuse_other(review: Review, what: str, given: Any, computed: Any) -> None:
    if given is not None and given != computed:
        raise review.forbidden(f"the {what} ({given}) {PRIORITY_PROVIDED.format(computed)}")


def _class(core: Core, name: str) -> Obj | None:
    return core.store.get((SCHEDULING_GROUP, PLURAL, "", name)) or _SYSTEM.get(name)


def _name_of_default(core: Core) -> str:
    defaults = [
        each for each in core.store.all(SCHEDULING_GROUP, PLURAL) if each.get("globalDefault")
    ]
    found = min(defaults, key=lambda each: int(each["value"]), default=None)
    return str(found["metadata"]["name"]) if found else ""


def allow_one_default(review: Review) -> None:
    assert review.new is not None
    if not review.new.get("globalDefault"):
        return
    name = _name_of_default(review.core)
    if name and name != review.new["metadata"]["name"]:
        raise review.forbidden(
            f"PriorityClass {name} is already marked as default. Only one default can exist"
        )


def keep_system_classes(review: Review) -> None:
    if review.name in _SYSTEM:
        raise review.forbidden("this is a system priority class and cannot be deleted")


# Defaults and protection for claims and volumes: a class for who names none, a finalizer for
# what is in use, no growth where the class does not allow it. And a class for an ingress that
# names none, which goes by the same rule.


STORAGE_GROUP, CLASSES = "storage.k8s.io", "storageclasses"
IS_DEFAULT = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
IS_DEFAULT_INGRESS = ("ingressclass.kubernetes.io/is-default-class",)
INGRESS_CLASS = "kubernetes.io/ingress.class"
NOT_BOUND = "Only bound persistent volume claims can be expanded"
NO_GROWTH = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions "
    "the pvc must support resize"
)


def default_class(review: Review) -> None:
    """DefaultStorageClass: the newest class that says it is the default."""
    assert review.new is not None
    spec = review.new["spec"]
    if spec.get("storageClassName") is not None or BETA_CLASS in _annotations(review.new):
        return
    if name := _default_class(review.core.store.all(STORAGE_GROUP, CLASSES), IS_DEFAULT):
        review.new["spec"] = {**spec, "storageClassName": name}


def default_ingress_class(review: Review) -> None:
    """DefaultIngressClass."""
    assert review.new is not None
    spec = review.new.get("spec") or {}
    if spec.get("ingressClassName") is not None or INGRESS_CLASS in _annotations(review.new):
        return
    if name := _default_class(
        review.core.store.all("networking.k8s.io", "ingressclasses"), IS_DEFAULT_INGRESS
    ):
        review.new["spec"] = {**spec, "ingressClassName": name}


def _default_class(classes: Iterable[Obj], marks: tuple[str, ...]) -> str:
    """The name of the newest class with a mark; of those of one second the first by name."""
    marked = [
        each for each in classes if any(_annotations(each).get(mark) == "true" for mark in marks)
    ]
    marked.sort(key=lambda each: str(each["metadata"]["name"]))
    newest = max(marked, key=lambda each: str(each["metadata"]["creationTimestamp"]), default=None)
    return str(newest["metadata"]["name"]) if newest else ""


def _annotations(obj: Obj) -> Obj:
    return obj["metadata"].get("annotations") or {}


def protected_by(finalizer: str) -> Callable[[Review], None]:
    """StorageObjectInUseProtection."""

    def protect(review: Review) -> None:
        assert review.new is not None
        metadata = review.new["metadata"]
        given = metadata.get("finalizers") or []
        if finalizer not in given:
            metadata["finalizers"] = [*given, finalizer]

    return protect


def allow_growth(review: Review) -> None:
    """PersistentVolumeClaimResize."""
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
        raise review.forbidden(NO_GROWTH)


def _size(claim: Obj) -> str:
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    return str(requests.get("storage", "0"))


def _class_of(claim: Obj) -> str:
    return str(_annotations(claim).get(BETA_CLASS) or claim["spec"].get("storageClassName") or "")


# The gatekeepers that every Kubernetes has, in its order.


INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")
ATTRIBUTES_CLASSES = Resource(
    "storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass", namespaced=False
)

GATES = (
    Gate(mutate=require_live_namespace, operations=(CREATE,), subresources=None),
    Gate((NAMESPACES,), mutate=protect_namespaces, operations=(DELETE,)),
    Gate((PODS,), limit_ranges.fill_in, limit_ranges.judge_pod, operations=(CREATE,)),
    Gate((PODS,), validate=limit_ranges.judge_pod, operations=(UPDATE,), subresources=("resize",)),
    Gate((PERSISTENT_VOLUME_CLAIMS,), validate=limit_ranges.judge_claim),
    Gate((PODS,), service_accounts.run_as, service_accounts.judge, operations=(CREATE,)),
    Gate((NODES,), taint_new_node, operations=(CREATE,)),
    Gate((PODS,), prioritize),
    Gate((PRIORITY_CLASSES,), validate=allow_one_default),
    Gate((PRIORITY_CLASSES,), validate=keep_system_classes, operations=(DELETE,)),
    Gate((PODS,), bear_failing_nodes),
    Gate((PERSISTENT_VOLUME_CLAIMS,), default_class, operations=(CREATE,)),
    Gate(
        (PERSISTENT_VOLUME_CLAIMS,),
        protected_by("kubernetes.io/pvc-protection"),
        operations=(CREATE,),
    ),
    Gate((PERSISTENT_VOLUMES,), protected_by("kubernetes.io/pv-protection"), operations=(CREATE,)),
    Gate((ATTRIBUTES_CLASSES,), protected_by("kubernetes.io/vac-protection"), operations=(CREATE,)),
    Gate((PERSISTENT_VOLUME_CLAIMS,), validate=allow_growth, operations=(UPDATE,)),
    Gate((INGRESSES,), default_ingress_class, operations=(CREATE,)),
)


def standard() -> Admission:
    """A chain of one cluster's own."""
    return Admission(GATES, _last(Quotas()), Webhooks())


def _last(quotas: Quotas) -> Sequence[Gate]:
    return (
        Gate(validate=quotas.enforce, operations=(CREATE,)),
        Gate((PERSISTENT_VOLUME_CLAIMS, SERVICES), validate=quotas.enforce, operations=(UPDATE,)),
        Gate((PODS,), validate=quotas.enforce, operations=(UPDATE,), subresources=("resize",)),
        Gate((PODS,), validate=quotas.enforce_when_terminating, operations=(UPDATE,)),
    )
