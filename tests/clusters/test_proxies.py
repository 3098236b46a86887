"""HTTP through the API server to simulated pods, on the embedded cluster and on the real control
plane.
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
def private_cluster():
    """Open an embedded cluster that the test may break."""
    cluster = open_cluster("embedded", seed="proxies", nodes=1)
    yield cluster
    cluster.close()


def create_service(cluster, name, **ports):
    listed = [
        {"name": port, "port": number, "targetPort": number} for port, number in ports.items()
    ]
    make(
        cluster,
        SERVICES,
        name,
        {"selector": {"app": name}, "ports": listed or [{"port": 80, "targetPort": 8080}]},
    )


def create_pod(cluster, name, app, *, annotations=None, **container):
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


def wait_until_ready(cluster, *names):
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


def test_service_proxy_reaches_ready_pods(cluster):
    create_service(cluster, "web")
    for name in ("web-0", "web-1"):
        create_pod(cluster, name, "web")
    wait_until_ready(cluster, "web-0", "web-1")
    said = {
        ask(cluster, each).text
        for each in ("web", "web:80", "http:web:80", "web:", *["web:80"] * 20)
    }
    assert said == {"web-0\n", "web-1\n"}
    assert ask(cluster, "web-1", PODS).text == "web-1\n"
    assert ask(cluster, "http:web-1:8080", PODS, method="POST", body=b"{}").status == 200


def test_address_forms_are_resolved(cluster):
    create_service(cluster, "found")
    create_pod(cluster, "found-0", "found")
    wait_until_ready(cluster, "found-0")
    api = cluster.api("test")
    address = cluster.runner.call(api.get(SERVICES, "found", "default"))["spec"]["clusterIP"]
    own = cluster.runner.call(api.get(PODS, "found-0", "default"))["status"]["podIP"]
    for url in (f"http://{address}", f"http://{own}:8080", "http://found.default.svc"):
        assert cluster.runner.call(urls.send_request(api, url, HttpCall(), 5.0)).text == "found-0\n"


def test_service_without_ready_pods_is_unavailable(cluster):
    create_service(cluster, "late")
    probe = {"httpGet": {"port": 8080}, "initialDelaySeconds": 3000}
    create_pod(cluster, "late-0", "late", readinessProbe=probe)
    cluster.advance("8s")
    assert refusal(ask(cluster, "late:80")) == (
        503,
        "ServiceUnavailable",
        'no endpoints available for service "late:80"',
    )


def test_service_without_pods_is_unavailable(cluster):
    create_service(cluster, "empty")
    cluster.advance("2s")
    assert refusal(ask(cluster, "empty:80")) == (
        503,
        "ServiceUnavailable",
        'no endpoints available for service "empty"',
    )


def test_port_is_selected_by_name(cluster):
    create_service(cluster, "named", h=8080, m=9090)
    create_pod(
        cluster, "named-0", "named", ports=[{"containerPort": 8080}, {"containerPort": 9090}]
    )
    wait_until_ready(cluster, "named-0")
    assert ask(cluster, "named:h").text == ask(cluster, "named:9090").text == "named-0\n"
    assert refusal(ask(cluster, "named:x"))[2] == 'no endpoints available for service "named:x"'
    assert refusal(ask(cluster, "named"))[2] == 'no endpoints available for service "named"'


def test_annotations_set_response(cluster):
    create_pod(
        cluster,
        "told",
        "told",
        annotations={"kscen.io/http-status": "503", "kscen.io/http-body.c": "overloaded"},
    )
    wait_until_ready(cluster, "told")
    answer = ask(cluster, "told:8080", PODS)
    assert (answer.status, answer.text) == (503, "overloaded")
    change = {"metadata": {"annotations": {"kscen.io/http-status": "200"}}}
    cluster.runner.call(cluster.api("test").patch(PODS, "told", change, "default"))
    cluster.advance("1s")
    assert ask(cluster, "told:8080", PODS).status == 200


def test_handler_of_test_sets_response(cluster):
    async def serve(call, container):
        headers = {name.lower(): value for name, value in call.headers}
        return HttpAnswer(
            201,
            (("X-From", container.name),),
            f"{call.method} {call.target} {headers['x-a']} ".encode() + call.body,
        )

    create_pod(cluster, "taught", "taught")
    wait_until_ready(cluster, "taught")
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
def test_closed_port_is_refused(cluster, name, port, container):
    create_pod(cluster, name, "deaf", **container)
    wait_until_ready(cluster, name)
    code, reason, message = refusal(ask(cluster, f"{name}:{port}", PODS))
    assert (code, reason) == (503, "ServiceUnavailable")
    assert message.startswith("error trying to reach service: ")
    assert message.endswith(": connect: connection refused")


def test_killed_container_does_not_respond(private_cluster):
    create_pod(private_cluster, "web", "web")
    wait_until_ready(private_cluster, "web")
    private_cluster.site.kubelets.kill("default", "web", "c")
    private_cluster.advance("10ms")
    words = "error trying to reach service: dial tcp 10.128.0.1:8080: connect: connection refused"
    assert refusal(ask(private_cluster, "web:8080", PODS)) == (503, "ServiceUnavailable", words)


@pytest.mark.parametrize("break_", ["power_off", "cut_off"])
def test_unreachable_pod_times_out_after_thirty_seconds(private_cluster, break_):
    create_service(private_cluster, "web")
    create_pod(private_cluster, "web", "web")
    wait_until_ready(private_cluster, "web")
    getattr(private_cluster.site.machines, break_)("node-1")
    began = private_cluster.runner.clock.now()
    words = "error trying to reach service: dial tcp 10.128.0.1:8080: i/o timeout"
    assert refusal(ask(private_cluster, "web:80")) == (503, "ServiceUnavailable", words)
    assert private_cluster.runner.clock.now() - began == 30


@pytest.mark.parametrize(
    ("there", "back", "takes"),
    [
        (Impairment(delay=0.25), Impairment(delay=0.5), 0.75),
        (Impairment(blocked=True), Impairment(), 30),
        (Impairment(), Impairment(loss=1), 30),
    ],
)
def test_requests_follow_network_rules(private_cluster, there, back, takes):
    create_pod(private_cluster, "web", "web")
    wait_until_ready(private_cluster, "web")
    address = private_cluster.runner.call(private_cluster.api("test").get(PODS, "web", "default"))[
        "status"
    ]["podIP"]
    private_cluster.site.network.add_filter(
        lambda flow: there if flow.target_address == address else back
    )
    began = private_cluster.runner.clock.now()
    assert (ask(private_cluster, "web:8080", PODS).status == 200) == (takes < 30)
    assert private_cluster.runner.clock.now() - began == takes


def is_ready(cluster, name):
    return is_true(cluster.runner.ask(cluster.api("test").get(PODS, name, "default")), "Ready")


def seconds_until_ready(cluster, name, until):
    """Return the seconds until the readiness of a pod has the given value."""
    began = cluster.runner.clock.now()
    cluster.until(lambda: is_ready(cluster, name) == until, "10m")
    return round(cluster.runner.clock.now() - began, 6)


def test_readiness_probe_uses_same_responses(private_cluster):
    create_service(private_cluster, "web")
    probe = {"httpGet": {"port": 8080}, "periodSeconds": 10, "failureThreshold": 3}
    create_pod(private_cluster, "web", "web", readinessProbe=probe)
    wait_until_ready(private_cluster, "web")
    private_cluster.advance("33s")
    forget = private_cluster.site.images.serve(HttpAnswer(500), pod="web", port=8080)
    assert 20 < seconds_until_ready(private_cluster, "web", until=False) <= 30
    private_cluster.advance("1s")
    assert (
        refusal(ask(private_cluster, "web:80"))[2] == 'no endpoints available for service "web:80"'
    )
    forget()
    assert seconds_until_ready(private_cluster, "web", until=True) <= 10
    change = {"metadata": {"annotations": {"kscen.io/http-after": "3s"}}}
    private_cluster.runner.call(private_cluster.api("test").patch(PODS, "web", change, "default"))
    assert 20 < seconds_until_ready(private_cluster, "web", until=False) <= 33


def test_failing_probe_keeps_pod_unready(private_cluster):
    probe = {"httpGet": {"port": 8080}, "periodSeconds": 5}
    create_pod(
        private_cluster,
        "web",
        "web",
        annotations={"kscen.io/http-status": "503"},
        readinessProbe=probe,
    )
    private_cluster.advance("60s")
    assert not is_ready(private_cluster, "web")


def test_response_delay_takes_cluster_time(private_cluster):
    create_pod(private_cluster, "web", "web", annotations={"kscen.io/http-after": "3s"})
    wait_until_ready(private_cluster, "web")
    began = private_cluster.runner.clock.now()
    assert ask(private_cluster, "web", PODS).status == 200
    assert private_cluster.runner.clock.now() - began == 3


def test_official_client_uses_proxy(private_cluster):
    from kubernetes.client import CoreV1Api

    create_service(private_cluster, "web")
    create_pod(private_cluster, "web-0", "web")
    wait_until_ready(private_cluster, "web-0")
    core = CoreV1Api(private_cluster.client)
    assert core.connect_get_namespaced_service_proxy("web:80", "default") == "web-0\n"
    assert core.connect_post_namespaced_pod_proxy_with_path("web-0", "default", "a/b") == "web-0\n"


def test_https_port_serves_proxy(private_cluster):
    from pytest_kscen.clusters.conformance import HttpsTransport

    create_pod(
        private_cluster,
        "told",
        "told",
        annotations={"kscen.io/http-status": "418", "kscen.io/http-body": "<html/>"},
    )
    wait_until_ready(private_cluster, "told")
    seen = []

    async def serve(call, container):
        seen.append(call.target)
        return HttpAnswer(200, (), b"ok")

    private_cluster.site.images.serve(serve, pod="asked")
    create_pod(private_cluster, "asked", "asked")
    wait_until_ready(private_cluster, "asked")
    road = HttpsTransport(private_cluster.kubeconfig)
    raw = road.call(
        "GET", "/api/v1/namespaces/default/pods/told:8080/proxy/x", {}, {"Accept": "text/html"}, b""
    )
    assert (raw.status, raw.body) == (418, b"<html/>")
    road.call("GET", "/api/v1/namespaces/default/pods/asked/proxy/proxy/a%20b", {"q": "/"}, {}, b"")
    assert seen == ["/proxy/a%20b?q=%2F"]
