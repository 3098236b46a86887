"""Set-up for a workflow engine: the admission webhook for Workflows and Schedules, and the
leader lease.
"""

from __future__ import annotations

import base64
import contextlib
from typing import TYPE_CHECKING, Any

from pytest_kscen.clock import Signal
from pytest_kscen.kube.leases import LEASE_DURATION, Lease, holder_name
from pytest_kscen.kube.retrying import RetryingApi
from pytest_kscen.objects.chaos_mesh import CRON_WORKFLOWS, OWN_GROUP
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import VALIDATING_WEBHOOKS
from pytest_kscen.run.preflight import PreflightRefused
from pytest_kscen.workflow.engine import ENGINE
from pytest_kscen.workflow.validation import validate

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Coroutine
    from typing import Never

    from pytest_kscen.clock import Clock
    from pytest_kscen.clusters.cluster import Cluster
    from pytest_kscen.embedded.apiserver.admission import Review
    from pytest_kscen.kube.api import Api
    from pytest_kscen.kube.webhooks import LocalServers
    from pytest_kscen.objects.chaos_mesh import EngineResources
    from pytest_kscen.objects.resources import Obj, Resource


NAME = "workflows"
WEBHOOK = f"{NAME}.{OWN_GROUP}"
LABEL = f"{OWN_GROUP}/webhook"
MOST_WARNINGS = 10
AGENT = "workflow-admission"


def start_admission(cluster: Cluster, family: EngineResources) -> None:
    """Validate Workflows and Schedules at admission from now on, until the cluster is closed."""
    if cluster.backend == "embedded":
        from pytest_kscen.embedded.apiserver.admission import Hook

        hook = Hook(WEBHOOK, validate=_judge_in_process, resources=_judged(family))
        cluster.admission.add(hook)  # type: ignore[attr-defined]  # what embedded clusters have
        return
    from pytest_kscen.embedded.apiserver.credentials import make_keys
    from pytest_kscen.kube.webhooks import LocalServers

    keys, servers = make_keys(), LocalServers()

    async def begin() -> None:
        api, url = cluster.api(AGENT), await serve(servers, keys.context())
        await unregister(api)
        policy = "Fail" if cluster.owned else "Ignore"
        await register(api, url, keys.authority, family, policy=policy)

    cluster.runner.call(begin())
    cluster.runner.start(servers.stay(), AGENT)


def verdict(new: Obj | None, old: Obj | None) -> tuple[str, list[str]]:
    """Return why the object is refused (empty if it is not) and the warnings that go with it."""
    if new is None or (old is not None and old.get("spec") == new.get("spec")):
        return "", []
    faults = validate(new)
    warnings = [str(fault) for fault in faults if not fault.is_error]
    return "; ".join(str(fault) for fault in faults if fault.is_error), warnings[:MOST_WARNINGS]


def _judge_in_process(review: Review) -> str:
    refusal, warnings = verdict(review.new, review.old)
    review.request.warnings.extend(warnings)
    return refusal


async def serve(servers: LocalServers, tls: ssl.SSLContext) -> str:
    """Serve the webhook and return its address."""
    from aiohttp import web

    from pytest_kscen.kube.webhooks import HOST, admission_request, allowed, denied

    async def judge(request: web.Request) -> web.Response:
        review = await admission_request(request)
        refusal, warnings = verdict(review.get("object"), review.get("oldObject"))
        return denied(review, refusal, warnings) if refusal else allowed(review, warnings=warnings)

    return f"https://{HOST}:{await servers.serve([web.post('/judge', judge)], tls)}/judge"


async def register(
    api: Api, url: str, authority: bytes, family: EngineResources, *, policy: str
) -> None:
    """Register the webhook for Workflows, Schedules and CronWorkflows."""
    from pytest_kscen.kube.webhooks import configuration, webhook

    rule = {
        "apiGroups": [family.group, CRON_WORKFLOWS.group],
        "apiVersions": [family.workflows.version],
        "operations": ["CREATE", "UPDATE"],
        "resources": [each.plural for each in _judged(family)],
    }
    one = webhook(WEBHOOK, url, base64.b64encode(authority).decode(), policy, rule)
    await api.create(VALIDATING_WEBHOOKS, configuration(VALIDATING_WEBHOOKS, WEBHOOK, LABEL, one))


def _judged(family: EngineResources) -> tuple[Resource, ...]:
    return family.workflows, family.schedules, CRON_WORKFLOWS


async def unregister(api: Api) -> None:
    """Remove the webhook, if it is registered."""
    with contextlib.suppress(NotFound):
        await api.delete(VALIDATING_WEBHOOKS, WEBHOOK)


LEASE_NAMESPACE = "kube-system"
LEASE_NAME = "workflow-engine.kscen.io"
REFUSED = (
    "the workflows of this cluster are driven by {holder}, which holds the Lease "
    "{lease}: end that first; "
    "if it was killed, try again when {lasts:.0f} s are over"
)


class EngineLease:
    """Lease of one workflow engine, from when it is taken until the engine is stopped.

    Two engines on one cluster would take each other's deletions for faults and report everything
    twice. On an embedded cluster none is needed: no other engine can reach it.
    """

    def __init__(self, cluster: Cluster, who: str) -> None:
        stream = cluster.chance.stream("lease of workflows")
        self._clock: Clock = cluster.runner.clock
        self._begun = Signal()
        self._drive: Callable[[], Coroutine[Any, Any, Never]] | None = None
        api = RetryingApi(cluster.api(ENGINE), self._clock, stream)
        self.lease = Lease(
            api, self._clock, LEASE_NAME, LEASE_NAMESPACE, holder_name(f"{who} {stream.suffix(5)}")
        )

    async def claim(self) -> None:
        """Take the Lease, or raise a PreflightRefused that names its holder."""
        if holder := await self.lease.claim(Signal()):
            raise PreflightRefused(
                REFUSED.format(holder=holder, lease=self.lease, lasts=LEASE_DURATION)
            )

    async def wait(self, stop: Signal, report: Callable[[str], None]) -> bool:
        """Take the Lease, however long that takes; return False if `stop` comes first.

        Each new holder that is waited for is passed to `report`.
        """
        reported = ""
        while not stop.given:
            if not (holder := await self.lease.take()):
                return True
            if holder != reported:
                reported = holder
                report(holder)
            await stop.within(self.lease.pause)
        return False

    async def hold(self) -> None:
        """Hold the Lease, and drive workflows once `begin` was called; raises LeaseLost when it is
        lost.
        """

        async def work() -> None:
            await self._begun.wait()
            if self._drive:
                await self._drive()

        await self.lease.hold(work())

    async def begin(self, drive: Callable[[], Coroutine[Any, Any, Never]]) -> None:
        self._drive = drive
        self._begun.give()
