"""Attaching Chaos Mesh to a cluster: its daemon lives from now on, and acts on what stands behind the nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.kube.informer import Informers
from pytest_kscen.simulation.bench import Bench
from pytest_kscen.simulation.chaos_mesh.daemon import ChaosDaemon
from pytest_kscen.simulation.chaos_mesh.effects.containers import ContainerKill
from pytest_kscen.simulation.chaos_mesh.effects.failing import IMAGE, PodFailure, nothing_works
from pytest_kscen.simulation.chaos_mesh.effects.killing import PodKill
from pytest_kscen.simulation.chaos_mesh.effects.marks import Marks
from pytest_kscen.simulation.chaos_mesh.effects.names import Names
from pytest_kscen.simulation.chaos_mesh.effects.network import NetworkEffect

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from pytest_kscen.chance import Chance
    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.chaos_mesh.effects.effect import Effect
    from pytest_kscen.simulation.site import Site

NAME = "chaos-mesh"


def actors(api_for: Callable[[str], Api], clock: Clock, chance: Chance, site: Site) -> list[tuple[str, Coroutine[Any, Any, Any]]]:
    """Whoever starts them must start them in this order, once for a cluster that has the definitions."""
    informers = Informers(api_for("chaos-mesh-informers"), clock, chance)
    bench = Bench.of(NAME, api_for(NAME), clock, informers)
    effects = Effects(bench, site)
    daemon = ChaosDaemon(bench, chance.stream(NAME), effects.of)
    return [("chaos-mesh-informers", informers.run()), (NAME, daemon.run())]


class Effects:
    """Who does what a chaos object wants done."""

    def __init__(self, bench: Bench, site: Site) -> None:
        self._network = NetworkEffect(site.network, Names(bench.api.plain))
        self._on_pods: dict[str, Effect] = {
            "pod-kill": PodKill(bench),
            "pod-failure": PodFailure(bench),
            "container-kill": ContainerKill(site),
        }
        self._marks = Marks(bench)
        site.images.register(nothing_works, image=IMAGE)

    def of(self, chaos: Obj) -> Effect:
        match chaos["kind"]:
            case "NetworkChaos":
                return self._network
            case "PodChaos":
                return self._on_pods[chaos["spec"]["action"]]
        return self._marks
