"""What a plan must be told on a cluster that is not of our making, where nothing has a default that we could know."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from pytest_kscen.options import Settings
    from pytest_kscen.runs.plan import Plan

REAL = ("kind", "kubeconfig")


def unmet(plan: Plan, backend: str, settings: Settings, churn_marks: Sequence[pytest.Mark]) -> list[str]:
    """What is missing, one line each, with what to give."""
    if backend not in REAL:
        return []
    return [*_storage_classes(plan, backend, settings, churn_marks), *_parent(plan, backend, settings)]


def _storage_classes(plan: Plan, backend: str, settings: Settings, marks: Sequence[pytest.Mark]) -> list[str]:
    if plan.churn is None or settings.storage_classes or any("storage_classes" in mark.kwargs for mark in marks):
        return []
    how = "--storage-classes A,B (KSCEN_STORAGE_CLASSES, storage_classes in the ini file) or volume_churn(storage_classes=[...])"
    return [f"the {backend} cluster has storage classes of its own: name those to test with {how}"]


def _parent(plan: Plan, backend: str, settings: Settings) -> list[str]:
    acting = list(dict.fromkeys(profile.profile for profile in plan.chaos if profile.needs_machines()))
    missing = [
        f"{flag} (KSCEN_{variable})"
        for flag, variable, value in (
            ("--parent-kubeconfig FILE", "PARENT_KUBECONFIG", settings.parent_kubeconfig),
            ("--vm-namespace NAME", "VM_NAMESPACE", settings.vm_namespace),
        )
        if not value
    ]
    if not acting or not missing:
        return []
    acts = f"{', '.join(acting)} act{'s' if len(acting) == 1 else ''} on the virtual machines under the {backend} cluster's nodes"
    return [f"{acts}: give {' and '.join(missing)}"]
