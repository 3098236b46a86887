"""Bindings by an extender that acts for the scheduler."""

import contextlib
import http.server
import json
import threading

import kubernetes
import pytest

from tests.scenario.objects import create, done, node, pod, scenario


@contextlib.contextmanager
def extender(answer):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.dumps(
                answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            ).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("user", "phase"), [("kscen:kube-scheduler", "Succeeded"), ("", "Failed"), ("alice", "Failed")]
)
def test_writer_of_a_binding(runner, user, phase):
    client = kubernetes.config.new_client_from_config(str(runner.cluster.kubeconfig))
    if user:
        client.set_default_header("Impersonate-User", user)

    def bind(question):
        target = {"apiVersion": "v1", "kind": "Node", "name": question["Node"]}
        binding = {"metadata": {"name": question["PodName"]}, "target": target}
        where = question["PodName"], question["PodNamespace"], binding
        kubernetes.client.CoreV1Api(client).create_namespaced_pod_binding(
            *where, _preload_content=False
        )
        return {}

    with extender(bind) as url, contextlib.closing(client):
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "extenders": [{"urlPrefix": url, "bindVerb": "bind"}],
        }
        played = runner.play(
            scenario(create(1, node()), create(2, pod("a")), done(3)), scheduler=configuration
        )

    assert played.phase == phase, played.message
    if phase == "Succeeded":
        assert played.timeline.scheduled("a").step == (2, 1)
    else:
        assert f"{user or 'OpenAPI-Generator'}" in played.message
        assert "created pods default/a while the scenario was running" in played.message
