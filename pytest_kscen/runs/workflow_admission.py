"""Workflows and Schedules are judged where they come in: what can only hang or fail is refused, what is odd comes with a warning.

The embedded cluster asks in this process, a real API server by a webhook. Of an update only a spec that has changed is judged,
so that what is there already can always be ended.
"""

from __future__ import annotations

import base64
import contextlib
from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import VALIDATING_WEBHOOKS
from pytest_kscen.objects.workflows import CRON_WORKFLOWS, OWN_GROUP
from pytest_kscen.workflow.validation import faults_of

if TYPE_CHECKING:
    import ssl

    from pytest_kscen.clusters.cluster import Cluster
    from pytest_kscen.kube.api import Api
    from pytest_kscen.kube.webhooks import Served
    from pytest_kscen.machinery.admission import Review
    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.objects.workflows import Family

NAME = "workflows"
WEBHOOK = f"{NAME}.{OWN_GROUP}"
LABEL = f"{OWN_GROUP}/webhook"
MOST_WARNINGS = 10
AGENT = "workflow-admission"


def judge_workflows(cluster: Cluster, family: Family) -> None:
    """From now on, for as long as the cluster is there."""
    if cluster.backend == "embedded":
        _in_process(cluster, family)
    else:
        _over_https(cluster, family, policy="Fail" if cluster.owned else "Ignore")


def verdict(new: Obj | None, old: Obj | None) -> tuple[str, list[str]]:
    """Why it is not let in, if it is not; and what is to be told in any case."""
    if new is None or (old is not None and old.get("spec") == new.get("spec")):
        return "", []
    faults = faults_of(new)
    warnings = [str(fault) for fault in faults if not fault.is_error]
    return "; ".join(str(fault) for fault in faults if fault.is_error), warnings[:MOST_WARNINGS]


def _in_process(cluster: Any, family: Family) -> None:
    from pytest_kscen.machinery.admission import Hook

    def judge(review: Review) -> str:
        refusal, warnings = verdict(review.new, review.old)
        review.request.warnings.extend(warnings)
        return refusal

    cluster.admission.add(Hook(WEBHOOK, validate=judge, resources=_judged(family)))


def _over_https(cluster: Cluster, family: Family, *, policy: str) -> None:
    from pytest_kscen.kube.webhooks import Served
    from pytest_kscen.machinery.http.keys import make_keys

    keys, served = make_keys(), Served()

    async def begin() -> None:
        api, url = cluster.api(AGENT), await serve(served, keys.context())
        await unregister(api)
        await register(api, url, keys.authority, family, policy=policy)

    cluster.runner.call(begin())
    cluster.runner.start(served.stay(), AGENT)


async def serve(served: Served, tls: ssl.SSLContext) -> str:
    """Where the webhook is from now on."""
    from aiohttp import web

    from pytest_kscen.kube.webhooks import HOST, allowed, asked, denied

    async def judge(request: web.Request) -> web.Response:
        review = await asked(request)
        refusal, warnings = verdict(review.get("object"), review.get("oldObject"))
        return denied(review, refusal, warnings) if refusal else allowed(review, warnings=warnings)

    return f"https://{HOST}:{await served.serve([web.post('/judge', judge)], tls)}/judge"


async def register(api: Api, url: str, authority: bytes, family: Family, *, policy: str) -> None:
    """Have the API server call it for each Workflow and each Schedule."""
    from pytest_kscen.kube.webhooks import configuration, webhook

    rule = {
        "apiGroups": [family.group, CRON_WORKFLOWS.group],
        "apiVersions": [family.workflows.version],
        "operations": ["CREATE", "UPDATE"],
        "resources": [each.plural for each in _judged(family)],
    }
    one = webhook(WEBHOOK, url, base64.b64encode(authority).decode(), policy, rule)
    await api.create(VALIDATING_WEBHOOKS, configuration(VALIDATING_WEBHOOKS, WEBHOOK, LABEL, one))


def _judged(family: Family) -> tuple[Resource, ...]:
    return family.workflows, family.schedules, CRON_WORKFLOWS


async def unregister(api: Api) -> None:
    """Take it away again, if it is there."""
    with contextlib.suppress(NotFound):
        await api.delete(VALIDATING_WEBHOOKS, WEBHOOK)
