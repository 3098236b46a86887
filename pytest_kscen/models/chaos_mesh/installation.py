"""Installation of the definitions that Chaos Mesh and workflows need, and the actors of the daemon.

Called by runs. Definitions that are there already are left as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.controller import ControllerContext
from pytest_kscen.kube.informer import Informers
from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.models.chaos_mesh.daemon import ChaosDaemon
from pytest_kscen.models.chaos_mesh.network_chaos import ExternalNames, NetworkEffect
from pytest_kscen.models.chaos_mesh.pod_chaos import (
    IMAGE,
    AnnotationMarks,
    ContainerKill,
    PodFailure,
    PodKill,
    run_pause_image,
)
from pytest_kscen.objects.chaos_mesh_definitions import (
    chaos_definitions,
    cron_workflow_definition,
    engine_definitions,
)
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import AlreadyExists
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from pytest_kscen.chance import Chance
    from pytest_kscen.clock import Clock
    from pytest_kscen.embedded.kubelet.nodes import Site
    from pytest_kscen.kube.api import Api
    from pytest_kscen.models.chaos_mesh.targets import Effect
    from pytest_kscen.objects.resources import Obj


INSTALL_TIMEOUT = 120.0


async def install(api: Api, clock: Clock, definitions: Iterable[Obj] = ()) -> None:
    """Install the missing definitions, and return when objects of these kinds can be created."""
    wanted = tuple(definitions) or (
        *chaos_definitions(),
        *engine_definitions(),
        cron_workflow_definition(),
    )
    for definition in wanted:
        try:
            await api.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        except AlreadyExists:
            continue  # a real one, or of an earlier run
    for definition in wanted:
        name = definition["metadata"]["name"]
        await wait_for(
            api,
            clock,
            CUSTOM_RESOURCE_DEFINITIONS,
            name,
            condition=lambda found: is_true(found, "Established"),
            timeout=INSTALL_TIMEOUT,
        )


NAME = "chaos-mesh"


def actors(
    api_for: Callable[[str], Api], clock: Clock, chance: Chance, site: Site
) -> list[tuple[str, Coroutine[Any, Any, Any]]]:
    """Return the daemon's actors, by name, to be started in this order. Call it once for a cluster
    that has the definitions.
    """
    informers = Informers(api_for("chaos-mesh-informers"), clock, chance)
    context = ControllerContext.of(NAME, api_for(NAME), clock, informers)
    effects = Effects(context, site)
    daemon = ChaosDaemon(context, chance.stream(NAME), effects.of)
    return [("chaos-mesh-informers", informers.run()), (NAME, daemon.run())]


class Effects:
    """Mapping from chaos objects to the effects that carry them out.

    Kinds without a real effect are noted in annotations of their pods.
    """

    def __init__(self, context: ControllerContext, site: Site) -> None:
        self._network = NetworkEffect(site.network, ExternalNames(context.api.plain))
        self._on_pods: dict[str, Effect] = {
            "pod-kill": PodKill(context),
            "pod-failure": PodFailure(context),
            "container-kill": ContainerKill(site),
        }
        self._marks = AnnotationMarks(context)
        site.images.register(run_pause_image, image=IMAGE)

    def of(self, chaos: Obj) -> Effect:
        match chaos["kind"]:
            case "NetworkChaos":
                return self._network
            case "PodChaos":
                return self._on_pods[chaos["spec"]["action"]]
        return self._marks
