"""The gate for controllers that are Python programs of their own and speak through the official client.

Those that live in the loop of a cluster await `kube.gate.check_scenario_step_phase`; those in any other language ask over HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.scenarios import SCENARIOS, may_work

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

LOOK_AGAIN = 30  # seconds of one watch; Scenarios are listed anew after it


def check_scenario_step_phase(controller: str, client: Any) -> None:
    """Blocks until the Scenario that is on, if there is one, lets this controller go on. `client` is an `ApiClient`."""
    from kubernetes.client import CustomObjectsApi
    from kubernetes.watch import Watch

    api: Any = CustomObjectsApi(client)
    where = (SCENARIOS.group, SCENARIOS.version, SCENARIOS.plural)
    while True:
        listing: Obj = api.list_cluster_custom_object(*where)
        if may_work(listing["items"], controller):
            return
        watch: Any = Watch()  # type: ignore[no-untyped-call]
        version = listing["metadata"]["resourceVersion"]
        for event in watch.stream(api.list_cluster_custom_object, *where, resource_version=version, timeout_seconds=LOOK_AGAIN):
            if may_work([event["object"]], controller):
                watch.stop()
