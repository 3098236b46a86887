"""What PodDisruptionBudgets still allow: scheduling respects them where it can, and goes on where it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.selectors import requirements_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo


class Budgets:
    """Those of a cluster at one moment."""

    def __init__(self, budgets: Iterable[Obj]) -> None:
        self._by_namespace: dict[str, list[Budget]] = {}
        for budget in budgets:
            self._by_namespace.setdefault(budget["metadata"]["namespace"], []).append(Budget(budget))

    def split(self, pods: Iterable[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """If these went, in this order: those for which a budget would be exceeded, and the others."""
        spent: dict[Budget, int] = {}
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod in pods:
            exceeded = False
            for budget in self._by_namespace.get(pod.namespace, ()):
                if budget.protects(pod):
                    spent[budget] = spent.get(budget, 0) + 1
                    exceeded = exceeded or spent[budget] > budget.allowed
            (violating if exceeded else others).append(pod)
        return violating, others


class Budget:
    """One."""

    def __init__(self, obj: Obj) -> None:
        status = obj.get("status") or {}
        self.allowed: int = status.get("disruptionsAllowed", 0)
        self._disrupted = frozenset(status.get("disruptedPods") or ())
        self._labels = requirements_of(obj["spec"].get("selector") or {})

    def protects(self, pod: PodInfo) -> bool:
        """An empty selector protects nobody here; and who is known to be on the way out has been counted."""
        if not self._labels or not pod.labels or pod.name in self._disrupted:
            return False
        return all(requirement.holds(pod.labels) for requirement in self._labels)
