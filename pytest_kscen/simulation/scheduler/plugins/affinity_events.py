"""What may help a pod that affinity has turned down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.scheduler.counting.standing import Terms, terms_of
from pytest_kscen.simulation.scheduler.framework.events import NODE, POD, Action, Interest
from pytest_kscen.simulation.scheduler.framework.pods import PodInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.scheduler.counting.standing import Term


def interests() -> Sequence[Interest]:
    return (
        Interest(POD, Action.ADD | Action.POD_LABEL | Action.DELETE, _pod_changed),
        Interest(NODE, Action.ADD | Action.NODE_LABEL, _node_changed),
    )


def _pod_changed(pod: PodInfo, old: Obj | None, new: Obj | None) -> bool:
    if new and old and new["metadata"]["uid"] == pod.uid:
        return True
    if not all(is_placed(one) for one in (old, new) if one):
        return False
    terms = terms_of(pod)
    if new and old:
        near = not _meets_all(terms.needs, old) and _meets_all(terms.needs, new)
        return near or (_meets_all(terms.forbids, old) and not _meets_all(terms.forbids, new))
    if new:
        return _meets_all(terms.needs, new)
    return old is not None and (_meets_all(terms.forbids, old) or _was_hostile(old, pod))


def is_placed(pod: Obj) -> bool:
    """It is on a node, or will be."""
    return bool(pod["spec"].get("nodeName") or (pod.get("status") or {}).get("nominatedNodeName"))


def _meets_all(terms: Sequence[Term], pod: Obj | None) -> bool:
    """As the real one's hint: a namespace is known by its name alone, and by a selector only if that selects all."""
    if not terms or pod is None:
        return False
    metadata = pod["metadata"]
    return all(term.means(metadata.get("namespace", ""), metadata.get("labels") or {}, {}) for term in terms)


def _was_hostile(other: Obj, pod: PodInfo) -> bool:
    forbids = Terms.of(PodInfo(other)).forbids if other["spec"].get("affinity") else ()
    return bool(forbids) and all(term.means(pod.namespace, pod.labels, {}) for term in forbids)


def _node_changed(pod: PodInfo, old: Obj | None, new: Obj | None) -> bool:
    if new is None:
        return False
    terms = terms_of(pod)
    now = new["metadata"].get("labels") or {}
    if old is None:
        return bool(terms.forbids) or any(term.key in now for term in terms.needs)
    before = old["metadata"].get("labels") or {}
    if any(term.key in now and now[term.key] != before.get(term.key) for term in terms.needs):
        return True
    return any(term.key in before and now.get(term.key) != before[term.key] for term in terms.forbids)
