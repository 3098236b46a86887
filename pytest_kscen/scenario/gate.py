"""Gate for controllers that are separate Python programs and use the official client.

Controllers in a cluster's event loop await `kube.gate.check_scenario_step_phase`; programs in other
languages use HTTP. Keep the imports few: users' programs import this module.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.scenarios import SCENARIOS, may_work

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

NOT_SERVED = 404
TRANSIENT = (410, 429, 500, 502, 503, 504)
RETRY_DELAY = 0.5  # seconds after an error
WATCH_TIMEOUT = 30  # seconds of one watch, after which Scenarios are listed again


def check_scenario_step_phase(controller: str, client: Any) -> None:
    """Block until the active Scenario, if there is one, allows this controller to continue.

    `client` is an `ApiClient` of the official client.
    """
    from kubernetes.client import ApiException, CustomObjectsApi
    from urllib3.exceptions import HTTPError

    api: Any = CustomObjectsApi(client)
    while True:
        try:
            if _passes(controller, api.list_cluster_custom_object):
                return
        except ApiException as error:
            if error.status == NOT_SERVED:
                return
            if error.status not in TRANSIENT:
                raise
        except (HTTPError, OSError):
            """The request is repeated."""
        else:
            continue
        time.sleep(RETRY_DELAY)  # noqa: TID251  # a separate program uses wall-clock time


def _passes(controller: str, scenarios: Any) -> bool:
    """Return True if the controller may work; otherwise wait for a change that may allow it."""
    from kubernetes.watch import Watch

    where = (SCENARIOS.group, SCENARIOS.version, SCENARIOS.plural)
    listing: Obj = scenarios(*where)
    if may_work(listing["items"], controller):
        return True
    watch: Any = Watch()  # type: ignore[no-untyped-call]
    version = listing["metadata"]["resourceVersion"]
    for event in watch.stream(
        scenarios, *where, resource_version=version, timeout_seconds=WATCH_TIMEOUT
    ):
        if event["type"] not in ("ADDED", "MODIFIED") or may_work([event["object"]], controller):
            watch.stop()
    return False
