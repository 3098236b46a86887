"""NamespaceLifecycle: nothing comes into a namespace that is not there or is going, and three namespaces stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import Forbidden, about, not_found
from pytest_kscen.objects.resources import NAMESPACES

if TYPE_CHECKING:
    from pytest_kscen.machinery.admission.review import Review

IMMORTAL = {"default", "kube-public", "kube-system"}
QUESTIONS = ("authorization.k8s.io", "localsubjectaccessreviews")


def enter(review: Review) -> None:
    """What is created needs a namespace that lives."""
    namespace, resource = review.request.namespace, review.request.resource
    if not namespace or not resource.namespaced:
        return
    found = review.core.store.get(("", "namespaces", "", namespace))
    if found is None:
        raise not_found(NAMESPACES, namespace)
    if found["metadata"].get("deletionTimestamp") and (resource.group, resource.plural) != QUESTIONS:
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        refusal = review.forbidden(why)
        message = f"namespace {namespace} is being terminated"
        cause = {"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}
        raise Forbidden(refusal.message, details={**refusal.status["details"], "causes": [cause]})


def stay(review: Review) -> None:
    """Some namespaces are never deleted."""
    if review.name in IMMORTAL:
        raise Forbidden(
            f'namespaces "{review.name}" is forbidden: this namespace may not be deleted', details=about(NAMESPACES, review.name)
        )
