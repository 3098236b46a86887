"""Invalid workflows are refused with equal messages by the embedded cluster and the webhook."""

from __future__ import annotations

import asyncio
import threading

import pytest
from kubernetes import config
from kubernetes.client import CustomObjectsApi

from pytest_kscen.embedded.apiserver.credentials import make_keys
from pytest_kscen.kube.webhooks import LocalServers
from pytest_kscen.objects.chaos_mesh import SHIPPED
from pytest_kscen.objects.errors import Forbidden
from pytest_kscen.run import workflow_setup
from pytest_kscen.run.workflows import install_chaos_mesh
from tests.workflow.validation.drafts import schedule, serial, suspend, workflow

REFUSED = (
    'admission webhook "workflows.workflow.kscen.io" denied the request: '
    "spec.templates[0].children[0]: template 'a': a → a is an endless loop: no template "
    "in it can end it"
)


def in_process(cluster):
    workflow_setup.start_admission(cluster, SHIPPED)


@pytest.fixture
def over_https():
    """Serve the webhook in a thread, since the embedded cluster's loop has no ports."""
    loop, served, keys = asyncio.new_event_loop(), LocalServers(), make_keys()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def call(life):
        return asyncio.run_coroutine_threadsafe(life, loop)

    url = call(workflow_setup.serve(served, keys.context())).result()
    stays = call(served.stay())

    def register(cluster):
        cluster.runner.call(
            workflow_setup.register(
                cluster.api("somebody"), url, keys.authority, SHIPPED, policy="Fail"
            )
        )

    yield register
    stays.cancel()
    call(asyncio.sleep(0.1)).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture(params=["in process", "over https"])
def judged(request, cluster):
    install_chaos_mesh(cluster)
    if request.param == "in process":
        in_process(cluster)
    else:
        request.getfixturevalue("over_https")(cluster)
    return cluster


def test_workflow_that_can_only_hang_is_refused(judged):
    api = judged.api("somebody")
    for resource, obj in (
        (SHIPPED.workflows, workflow(serial("a", "a"))),
        (
            SHIPPED.schedules,
            schedule(type="Workflow", podChaos=None, workflow=workflow(serial("a", "a"))["spec"]),
        ),
    ):
        with pytest.raises(Forbidden) as refused:
            judged.runner.call(
                api.create(resource, {**obj, "metadata": {"name": "w", "namespace": "default"}})
            )
        assert refused.value.message == REFUSED.replace(
            "spec.", "spec.workflow." if "workflow" in obj["spec"] else "spec."
        )


def test_valid_workflow_is_admitted_and_may_be_changed(judged):
    api = judged.api("somebody")
    judged.runner.call(api.create(SHIPPED.workflows, workflow(suspend())))
    judged.runner.call(
        api.patch(SHIPPED.workflows, "w", {"metadata": {"labels": {"a": "b"}}}, "default")
    )
    with pytest.raises(Forbidden, match="there is no template 'paus'"):
        judged.runner.call(
            api.patch(SHIPPED.workflows, "w", {"spec": {"entry": "paus"}}, "default")
        )
    judged.runner.call(api.delete(SHIPPED.workflows, "w", "default"))


def test_existing_workflow_can_be_ended(cluster):
    install_chaos_mesh(cluster)
    api = cluster.api("somebody")
    cluster.runner.call(api.create(SHIPPED.workflows, workflow(serial("a", "a"))))
    in_process(cluster)
    cluster.runner.call(
        api.patch(SHIPPED.workflows, "w", {"metadata": {"annotations": {"a": "b"}}}, "default")
    )
    cluster.runner.call(api.delete(SHIPPED.workflows, "w", "default"))


def test_questionable_workflow_is_admitted_with_a_warning(judged):
    api = CustomObjectsApi(config.new_client_from_config(str(judged.kubeconfig)))
    resource, obj = SHIPPED.workflows, workflow(suspend(), suspend("b"))
    where = (resource.group, resource.version, "default", resource.plural)
    _, code, headers = api.create_namespaced_custom_object_with_http_info(*where, obj)
    assert code == 201
    assert (
        "template 'b': it cannot be reached from the entry 'pause', so it never runs"
        in headers["Warning"]
    )


def test_webhook_can_be_removed(cluster, over_https):
    install_chaos_mesh(cluster)
    over_https(cluster)
    api = cluster.api("somebody")
    cluster.runner.call(workflow_setup.unregister(api))
    cluster.runner.call(api.create(SHIPPED.workflows, workflow(serial("a", "a"))))


@pytest.mark.controlplane
@pytest.mark.cluster(backend="controlplane", nodes=0)
def test_real_api_server_calls_the_webhook(cluster):
    install_chaos_mesh(cluster)
    workflow_setup.start_admission(cluster, SHIPPED)
    workflow_setup.start_admission(cluster, SHIPPED)  # the second takes the first one's place
    api = cluster.api("somebody")
    with pytest.raises(Forbidden) as refused:
        cluster.runner.call(api.create(SHIPPED.workflows, workflow(serial("a", "a"))))
    assert REFUSED in refused.value.message
    cluster.runner.call(api.create(SHIPPED.workflows, workflow(suspend())))
