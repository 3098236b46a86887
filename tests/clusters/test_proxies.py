"""HTTP through the API server to what simulated pods run: one body over the embedded cluster and
the real control plane.
"""

from __future__ import annotations

import orjson
import pytest

from pytest_kscen.clusters import open_cluster
from pytest_kscen.embedded.kubelet.network import Impairment
from pytest_kscen.kube import urls
from pytest_kscen.kube.api import HttpAnswer, HttpCall
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.resources import PODS, SERVICES


@pytest.fixture(
    scope="module",
    params=["embedded", pytest.param("controlplane", marks=pytest.mark.controlplane)],
)
def cluster(request):
    cluster = open_cluster(request.param, seed="proxies", nodes=1)
    yield cluster
    cluster.close()


@pytest.fixture
def alone():
    """An embedded cluster that may be broken."""
    cluster = open_cluster("embedded", seed="proxies", nodes=1)
    yield cluster
    cluster.close()


def service(cluster, name, **ports):
    listed = [
        {"name": port, "port": number, "targetPort": number} for port, number in ports.items()
    ]
    make(
        cluster,
        SERVICES,
        name,
        {"selector": {"app": name}, "ports": listed or [{"port": 80, "targetPort": 8080}]},
    )


def pod(cluster, name, app, *, annotations=None, **container):
    container = {"name": "c", "image": "web:1", "ports": [{"containerPort": 8080}], **container}
    metadata = {"labels": {"app": app}, "annotations": annotations or {}}
    make(
        cluster,
        PODS,
        name,
        {"containers": [container], "terminationGracePeriodSeconds": 0},
        **metadata,
    )


def make(cluster, resource, name, spec, **metadata):
    obj = {
        "apiVersion": "v1",
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": spec,
    }
    cluster.runner.call(cluster.api("test").create(resource, obj))


def ready(cluster, *names):
    api = cluster.api("test")

    def all_are():
        return all(
            is_true(cluster.runner.ask(api.get(PODS, name, "default")), "Ready") for name in names
        )

    cluster.until(all_are, "60s")
    cluster.advance("2s")  # for the endpoints


def ask(cluster, name, resource=SERVICES, **call):
    return cluster.runner.call(
        cluster.api("test").proxy(resource, name, "default", HttpCall(**call))
    )


def refusal(answer):
    status = orjson.loads(answer.body)
    assert status["kind"] == "Status"
    return answer.status, status["reason"], status["message"]


def test_a_service_leads_to_its_ready_pods(cluster):
    service(cluster, "web")
    for name in ("web-0", "web-1"):
        pod(cluster, name, "web")
    ready(cluster, "web-0", "web-1")
    said = {
        ask(cluster, each).text
        for each in ("web", "web:80", "http:web:80", "web:", *["web:80"] * 20)
    }
    assert said == {"web-0\n", "web-1\n"}
    assert ask(cluster, "web-1", PODS).text == "web-1\n"
    assert ask(cluster, "http:web-1:8080", PODS, method="POST", body=b"{}").status == 200


def test_an_address_is_found(cluster):
    service(cluster, "found")
    pod(cluster, "found-0", "found")
    ready(cluster, "found-0")
    api = cluster.api("test")
    address = cluster.runner.call(api.get(SERVICES, "found", "default"))["spec"]["clusterIP"]
    own = cluster.runner.call(api.get(PODS, "found-0", "default"))["status"]["podIP"]
    for url in (f"http://{address}", f"http://{own}:8080", "http://found.default.svc"):
        assert cluster.runner.call(urls.ask(api, url, HttpCall(), 5.0)).text == "found-0\n"


def test_nobody_ready(cluster):
    service(cluster, "late")
    probe = {"httpGet": {"port": 8080}, "initialDelaySeconds": 3000}
    pod(cluster, "late-0", "late", readinessProbe=probe)
    cluster.advance("8s")
    assert refusal(ask(cluster, "late:80")) == (
        503,
        "ServiceUnavailable",
        'no endpoints available for service "late:80"',
    )


def test_nobody_selected(cluster):
    service(cluster, "empty")
    cluster.advance("2s")
    assert refusal(ask(cluster, "empty:80")) == (
        503,
        "ServiceUnavailable",
        'no endpoints available for service "empty"',
    )


def test_a_port_has_the_name_that_is_asked_for(cluster):
    service(cluster, "named", h=8080, m=9090)
    pod(cluster, "named-0", "named", ports=[{"containerPort": 8080}, {"containerPort": 9090}])
    ready(cluster, "named-0")
    assert ask(cluster, "named:h").text == ask(cluster, "named:9090").text == "named-0\n"
    assert refusal(ask(cluster, "named:x"))[2] == 'no endpoints available for service "named:x"'
    assert refusal(ask(cluster, "named"))[2] == 'no endpoints available for service "named"'


def test_annotations_tell_what_is_answered(cluster):
    pod(
        cluster,
        "told",
        "told",
        annotations={"kscen.io/http-status": "503", "kscen.io/http-body.c": "overloaded"},
    )
    ready(cluster, "told")
    answer = ask(cluster, "told:8080", PODS)
    assert (answer.status, answer.text) == (503, "overloaded")
    change = {"metadata": {"annotations": {"kscen.io/http-status": "200"}}}
    cluster.runner.call(cluster.api("test").patch(PODS, "told", change, "default"))
    cluster.advance("1s")
    assert ask(cluster, "told:8080", PODS).status == 200


def test_a_test_teaches_what_is_answered(cluster):
    async def serve(call, container):
        headers = {name.lower(): value for name, value in call.headers}
        return HttpAnswer(
            201,
            (("X-From", container.name),),
            f"{call.method} {call.target} {headers['x-a']} ".encode() + call.body,
        )

    pod(cluster, "taught", "taught")
    ready(cluster, "taught")
    forget = cluster.site.images.serve(serve, image="web", pod="taught", port=8080)
    answer = ask(
        cluster,
        "taught:8080",
        PODS,
        method="PUT",
        target="/a/b?c=d",
        headers=(("X-A", "e"),),
        body=b"body",
    )
    assert (answer.status, answer.text, dict(answer.headers)["X-From"]) == (
        201,
        "PUT /a/b?c=d e body",
        "c",
    )
    forget()
    assert ask(cluster, "taught:8080", PODS).text == "taught\n"


@pytest.mark.parametrize(
    ("name", "port", "container"),
    [
        ("another-port", 81, {}),
        ("sleeps", 8080, {"ports": [], "command": ["sleep", "1000"]}),
        ("pauses", 8080, {"image": "registry.k8s.io/pause:3.9"}),
    ],
)
def test_nobody_listens(cluster, name, port, container):
    pod(cluster, name, "deaf", **container)
    ready(cluster, name)
    code, reason, message = refusal(ask(cluster, f"{name}:{port}", PODS))
    assert (code, reason) == (503, "ServiceUnavailable")
    assert message.startswith("error trying to reach service: ")
    assert message.endswith(": connect: connection refused")


def test_one_that_is_killed_does_not_answer(alone):
    pod(alone, "web", "web")
    ready(alone, "web")
    alone.site.kubelets.kill("default", "web", "c")
    alone.advance("10ms")
    words = "error trying to reach service: dial tcp 10.128.0.1:8080: connect: connection refused"
    assert refusal(ask(alone, "web:8080", PODS)) == (503, "ServiceUnavailable", words)


@pytest.mark.parametrize("break_", ["power_off", "cut_off"])
def test_one_that_cannot_be_reached_is_dialled_for_thirty_seconds(alone, break_):
    service(alone, "web")
    pod(alone, "web", "web")
    ready(alone, "web")
    getattr(alone.site.machines, break_)("node-1")
    began = alone.runner.clock.now()
    words = "error trying to reach service: dial tcp 10.128.0.1:8080: i/o timeout"
    assert refusal(ask(alone, "web:80")) == (503, "ServiceUnavailable", words)
    assert alone.runner.clock.now() - began == 30


@pytest.mark.parametrize(
    ("there", "back", "takes"),
    [
        (Impairment(delay=0.25), Impairment(delay=0.5), 0.75),
        (Impairment(blocked=True), Impairment(), 30),
        (Impairment(), Impairment(loss=1), 30),
    ],
)
def test_packets_take_the_networks_way(alone, there, back, takes):
    pod(alone, "web", "web")
    ready(alone, "web")
    address = alone.runner.call(alone.api("test").get(PODS, "web", "default"))["status"]["podIP"]
    alone.site.network.add_filter(lambda flow: there if flow.target_address == address else back)
    began = alone.runner.clock.now()
    assert (ask(alone, "web:8080", PODS).status == 200) == (takes < 30)
    assert alone.runner.clock.now() - began == takes


def is_ready(cluster, name):
    return is_true(cluster.runner.ask(cluster.api("test").get(PODS, name, "default")), "Ready")


def ticks(cluster, name, until):
    """Seconds from now until a pod is ready, or is not."""
    began = cluster.runner.clock.now()
    cluster.until(lambda: is_ready(cluster, name) == until, "10m")
    return round(cluster.runner.clock.now() - began, 6)


def test_a_readiness_probe_hears_the_same(alone):
    service(alone, "web")
    probe = {"httpGet": {"port": 8080}, "periodSeconds": 10, "failureThreshold": 3}
    pod(alone, "web", "web", readinessProbe=probe)
    ready(alone, "web")
    alone.advance("33s")
    forget = alone.site.images.serve(HttpAnswer(500), pod="web", port=8080)
    assert 20 < ticks(alone, "web", until=False) <= 30
    alone.advance("1s")
    assert refusal(ask(alone, "web:80"))[2] == 'no endpoints available for service "web:80"'
    forget()
    assert ticks(alone, "web", until=True) <= 10
    change = {"metadata": {"annotations": {"kscen.io/http-after": "3s"}}}
    alone.runner.call(alone.api("test").patch(PODS, "web", change, "default"))
    assert 20 < ticks(alone, "web", until=False) <= 33


def test_one_that_is_never_well_is_never_ready(alone):
    probe = {"httpGet": {"port": 8080}, "periodSeconds": 5}
    pod(alone, "web", "web", annotations={"kscen.io/http-status": "503"}, readinessProbe=probe)
    alone.advance("60s")
    assert not is_ready(alone, "web")


def test_an_answer_may_take_its_time(alone):
    pod(alone, "web", "web", annotations={"kscen.io/http-after": "3s"})
    ready(alone, "web")
    began = alone.runner.clock.now()
    assert ask(alone, "web", PODS).status == 200
    assert alone.runner.clock.now() - began == 3


def test_the_official_client(alone):
    from kubernetes.client import CoreV1Api

    service(alone, "web")
    pod(alone, "web-0", "web")
    ready(alone, "web-0")
    core = CoreV1Api(alone.client)
    assert core.connect_get_namespaced_service_proxy("web:80", "default") == "web-0\n"
    assert core.connect_post_namespaced_pod_proxy_with_path("web-0", "default", "a/b") == "web-0\n"


def test_over_the_port(alone):
    from pytest_kscen.clusters.conformance import HttpsTransport

    pod(
        alone,
        "told",
        "told",
        annotations={"kscen.io/http-status": "418", "kscen.io/http-body": "<html/>"},
    )
    ready(alone, "told")
    seen = []

    async def serve(call, container):
        seen.append(call.target)
        return HttpAnswer(200, (), b"ok")

    alone.site.images.serve(serve, pod="asked")
    pod(alone, "asked", "asked")
    ready(alone, "asked")
    road = HttpsTransport(alone.kubeconfig)
    raw = road.call(
        "GET", "/api/v1/namespaces/default/pods/told:8080/proxy/x", {}, {"Accept": "text/html"}, b""
    )
    assert (raw.status, raw.body) == (418, b"<html/>")
    road.call("GET", "/api/v1/namespaces/default/pods/asked/proxy/proxy/a%20b", {"q": "/"}, {}, b"")
    assert seen == ["/proxy/a%20b?q=%2F"]
