"""What is said to extenders and what they say: the JSON of k8s.io/kube-scheduler/extender/v1, whose names are Go's own.

Names are read as Go reads them, whatever the case of their letters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.scheduler.framework.extending import Victims
    from pytest_kscen.simulation.scheduler.framework.nodes import NodeInfo


def field(answer: Any, name: str) -> Any:
    """A field of an answer; None if it is not there."""
    if not isinstance(answer, dict):
        return None
    if name in answer:
        return answer[name]
    return next((value for key, value in answer.items() if key.lower() == name.lower()), None)


def told(obj: Obj) -> Obj:
    """An object as the scheduler knows it: who manages which field is left out."""
    return {**obj, "metadata": {name: value for name, value in obj["metadata"].items() if name != "managedFields"}}


def about_nodes(pod: Obj, nodes: Sequence[NodeInfo], *, by_name: bool) -> Obj:
    """ExtenderArgs."""
    if by_name:
        return {"Pod": told(pod), "Nodes": None, "NodeNames": [node.name for node in nodes]}
    return {"Pod": told(pod), "Nodes": {"metadata": {}, "items": [told(node.node) for node in nodes]}, "NodeNames": None}


def nodes_in(answer: Any, *, by_name: bool) -> list[str]:
    """The names in an ExtenderFilterResult."""
    names = field(answer, "NodeNames")
    if by_name and names is not None:
        return list(names)
    return [node["metadata"]["name"] for node in field(field(answer, "Nodes"), "items") or ()]


def scores_in(answer: Any) -> dict[str, int]:
    """A HostPriorityList; what is said of a host twice is added up."""
    scores: dict[str, int] = {}
    for one in answer or ():
        host = field(one, "Host")
        scores[host] = scores.get(host, 0) + int(field(one, "Score") or 0)
    return scores


def about_victims(pod: Obj, candidates: Mapping[str, Victims], *, by_name: bool) -> Obj:
    """ExtenderPreemptionArgs."""
    named = {
        node: {
            "Pods": [{"UID": one.uid} if by_name else told(one.obj) for one in victims.pods],
            "NumPDBViolations": victims.violations,
        }
        for node, victims in candidates.items()
    }
    return {
        "Pod": told(pod),
        "NodeNameToVictims": None if by_name else named,
        "NodeNameToMetaVictims": named if by_name else None,
    }


def victims_in(answer: Any) -> Iterable[tuple[str, list[str], int]]:
    """Nodes, the uids of their victims and violated budgets, in an ExtenderPreemptionResult."""
    for node, victims in (field(answer, "NodeNameToMetaVictims") or {}).items():
        uids = [field(pod, "UID") for pod in field(victims, "Pods") or ()]
        yield node, uids, int(field(victims, "NumPDBViolations") or 0)


def about_binding(pod: Obj, node: str) -> Obj:
    """ExtenderBindingArgs."""
    metadata = pod["metadata"]
    return {"PodName": metadata["name"], "PodNamespace": metadata["namespace"], "PodUID": metadata["uid"], "Node": node}
