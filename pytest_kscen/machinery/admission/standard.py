"""The gatekeepers that every Kubernetes has, in its order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.admission import accounts, lifecycle, limits, priority, storage, tolerations
from pytest_kscen.machinery.admission.chain import Admission
from pytest_kscen.machinery.admission.quota import Quotas
from pytest_kscen.machinery.admission.review import CREATE, DELETE, UPDATE, Gate
from pytest_kscen.machinery.admission.webhooks import Webhooks
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
    from collections.abc import Sequence

INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")
ATTRIBUTES_CLASSES = Resource("storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass", namespaced=False)

GATES = (
    Gate(mutate=lifecycle.enter, operations=(CREATE,), subresources=None),
    Gate((NAMESPACES,), mutate=lifecycle.stay, operations=(DELETE,)),
    Gate((PODS,), limits.fill_in, limits.judge_pod, operations=(CREATE,)),
    Gate((PODS,), validate=limits.judge_pod, operations=(UPDATE,), subresources=("resize",)),
    Gate((PERSISTENT_VOLUME_CLAIMS,), validate=limits.judge_claim),
    Gate((PODS,), accounts.run_as, accounts.judge, operations=(CREATE,)),
    Gate((NODES,), tolerations.taint_new_node, operations=(CREATE,)),
    Gate((PODS,), priority.prioritize),
    Gate((PRIORITY_CLASSES,), validate=priority.allow_one_default),
    Gate((PRIORITY_CLASSES,), validate=priority.keep_system_classes, operations=(DELETE,)),
    Gate((PODS,), tolerations.bear_failing_nodes),
    Gate((PERSISTENT_VOLUME_CLAIMS,), storage.default_class, operations=(CREATE,)),
    Gate((PERSISTENT_VOLUME_CLAIMS,), storage.protected_by("kubernetes.io/pvc-protection"), operations=(CREATE,)),
    Gate((PERSISTENT_VOLUMES,), storage.protected_by("kubernetes.io/pv-protection"), operations=(CREATE,)),
    Gate((ATTRIBUTES_CLASSES,), storage.protected_by("kubernetes.io/vac-protection"), operations=(CREATE,)),
    Gate((PERSISTENT_VOLUME_CLAIMS,), validate=storage.allow_growth, operations=(UPDATE,)),
    Gate((INGRESSES,), storage.default_ingress_class, operations=(CREATE,)),
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
