"""What chaos acts on: for each kind, where its selectors stand and whether they mean pods or containers; and a target's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.kube.picture import Ref
from pytest_kscen.simulation.chaos_mesh.selecting import NothingSelected, chosen, selected

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytest_kscen.chance import Stream
    from pytest_kscen.objects.resources import Obj

SELF, TARGET = ".", ".Target"
ELSEWHERE = {"AWSChaos": "AWS", "AzureChaos": "Azure", "GCPChaos": "GCP", "PhysicalMachineChaos": "a physical machine"}
"""Kinds whose targets are not in a cluster, and where they are."""
WHOLE_PODS = ("NetworkChaos", "HTTPChaos", "KernelChaos")
"""All others act on containers."""


class Target(NamedTuple):
    """One of them, as a record names it."""

    key: str
    namespace: str
    pod: str
    container: str = ""

    @property
    def id(self) -> str:
        return "/".join(part for part in self[1:] if part)

    @property
    def ref(self) -> Ref:
        return Ref(self.namespace, self.pod)

    @classmethod
    def of(cls, record: Obj) -> Target:
        """Somebody else may have written anything into it: what is no name is nobody's."""
        namespace, pod, container, *_ = f"{record['id']}//".split("/")
        return cls(record["selectorKey"], namespace, pod, container)


def targets_of(chaos: Obj, pods: Mapping[Ref, Obj], nodes: Iterable[Obj], chance: Stream) -> list[Target]:
    """Chosen now, and never again."""
    found = []
    if place := ELSEWHERE.get(chaos["kind"]):
        raise NothingSelected(f"its target is {place}, and nothing here can act on that")
    for key, selection in _selections(chaos):
        namespace, nodes = chaos["metadata"]["namespace"], list(nodes)
        among = selected(selection.get("selector") or {}, namespace, pods, nodes)
        try:
            hit = chosen(selection.get("mode", ""), selection.get("value", ""), among, chance)
        except NothingSelected as why:
            raise NothingSelected(f"{'target: ' if key == TARGET else ''}{why}") from None
        refs = [(pod["metadata"]["namespace"], pod["metadata"]["name"], pod) for pod in hit]
        found += [Target(key, place, name, each) for place, name, pod in refs for each in _containers(chaos, pod)]
    return found


def _selections(chaos: Obj) -> Iterator[tuple[str, Obj]]:
    yield SELF, chaos["spec"]
    if chaos["kind"] == "NetworkChaos" and chaos["spec"].get("target"):
        yield TARGET, chaos["spec"]["target"]


def _containers(chaos: Obj, pod: Obj) -> list[str]:
    """Those that are named, else the first; an empty name means the pod as a whole."""
    kind, spec = chaos["kind"], chaos["spec"]
    if kind in WHOLE_PODS or (kind == "PodChaos" and spec["action"] != "container-kill"):
        return [""]
    there = [each["name"] for each in pod["spec"]["containers"]]
    wanted = spec.get("containerNames")
    return [name for name in there if name in wanted] if wanted else there[:1]
