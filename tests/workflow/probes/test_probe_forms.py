"""Requests of each form of a probe, and its verdict on the response."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading
import time
from urllib.parse import parse_qs, urlsplit

import pytest

from pytest_kscen.kube.urls import service_of
from pytest_kscen.objects.resources import CONFIG_MAPS, PODS, SERVICES
from pytest_kscen.workflow.probes import InvalidProbe, Probe


@contextlib.contextmanager
def serving(answer):
    """Real server on loopback; `answer(handler)` returns a status and a body."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = answer(self)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815  # http.server's own spelling

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class TestWhere:
    @pytest.mark.parametrize(
        ("host", "service"),
        [
            ("web.shop", ("web", "shop", SERVICES)),
            ("web.shop.svc", ("web", "shop", SERVICES)),
            ("web.shop.svc.cluster.local", ("web", "shop", SERVICES)),
            ("web.shop.svc.cluster.local.", ("web", "shop", SERVICES)),
            ("web", None),
            ("localhost", None),
            ("127.0.0.1", None),
            ("::1", None),
            ("www.example.com", None),
            ("web.shop.pod", None),
            ("Web_1.shop", None),
        ],
    )
    def test_service_host_is_in_the_cluster(self, host, service):
        assert service_of(host) == service


class TestInTheCluster:
    @pytest.fixture(autouse=True)
    def web(self, probe_setup):
        probe_setup.make(
            SERVICES,
            "web",
            spec={"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
        )
        container = {"name": "c", "image": "web:1", "ports": [{"containerPort": 8080}]}
        probe_setup.make(
            PODS, "web-0", metadata={"labels": {"app": "web"}}, spec={"containers": [container]}
        )
        probe_setup.runner.advance(20)

    def annotate(self, probe_setup, **annotations):
        reported = {f"kscen.io/http-{name}": value for name, value in annotations.items()}
        probe_setup.call(
            probe_setup.api.patch(PODS, "web-0", {"metadata": {"annotations": reported}}, "default")
        )

    def test_response_is_judged(self, probe_setup):
        assert probe_setup.ask(http={"url": "http://web.default/health"}) == (
            True,
            "http://web.default/health answered 200",
        )

    def test_service_is_reached_by_its_addresses(self, probe_setup):
        pod = probe_setup.call(probe_setup.api.get(PODS, "web-0", "default"))["status"]["podIP"]
        service = probe_setup.call(probe_setup.api.get(SERVICES, "web", "default"))["spec"][
            "clusterIP"
        ]
        for url in (f"http://{pod}:8080", f"http://{service}"):
            assert probe_setup.ask(http={"url": url}) == (True, f"{url} answered 200")

    def test_other_status_fails(self, probe_setup):
        self.annotate(probe_setup, status="500", body="out of\ncheese")
        words = "http://web.default answered 500, and 200-299 was expected: out of cheese"
        assert probe_setup.ask(http={"url": "http://web.default"}) == (False, words)
        assert probe_setup.ask(http={"url": "http://web.default", "criteria": {"statusCode": 500}})[
            0
        ]
        assert probe_setup.ask(
            http={"url": "http://web.default", "criteria": {"statusCode": "400-500"}}
        )[0]

    def test_other_body_fails(self, probe_setup):
        url = "http://web.default.svc"
        assert probe_setup.ask(http={"url": url, "criteria": {"body": "web-0"}})[0]
        words = f"{url} answered 200 without 'web-1' in its body: web-0"
        assert probe_setup.ask(
            http={"url": url, "criteria": {"statusCode": "200", "body": "web-1"}}
        ) == (
            False,
            words,
        )

    def test_service_without_ready_endpoints_fails(self, probe_setup):
        probe_setup.call(probe_setup.api.delete(PODS, "web-0", "default", grace_period=0))
        probe_setup.runner.advance(5)
        words = (
            "http://web.default answered 503, and 200-299 was expected: no endpoints "
            'available for service "web"'
        )
        assert probe_setup.ask(http={"url": "http://web.default"}) == (False, words)

    def test_slow_response_times_out(self, probe_setup):
        self.annotate(probe_setup, after="3s")
        began = probe_setup.at()
        probing = probe_setup.probing(
            {"http": {"url": "http://web.default"}, "failureThreshold": 2, "interval": "5s"}
        )
        (verdict,) = probe_setup.call(probing.at_start())
        assert (verdict.passed, verdict.message) == (False, "there was no answer within 1 s")
        assert [at - began for at, *_ in probe_setup.notes()] == [1.0, 6.0]
        assert probe_setup.ask(http={"url": "http://web.default"}, timeout="4s")[0]


class TestDirectly:
    def test_real_server_is_reached(self, probe_setup):
        recorded_entries = []

        def answer(handler):
            recorded_entries.append(
                (handler.command, handler.path, handler.headers["X-Who"], handler.rfile.read(2))
            )
            return 202, b"taken"

        with serving(answer) as url:
            form = {
                "url": f"{url}/a?b=c",
                "method": "POST",
                "headers": {"X-Who": ["me", "you"]},
                "body": "hi",
            }
            assert probe_setup.ask(
                http={**form, "criteria": {"statusCode": "202", "body": "tak"}}
            ) == (
                True,
                f"{url}/a?b=c answered 202",
            )
        assert recorded_entries == [("POST", "/a?b=c", "me, you", b"hi")]
        assert probe_setup.at() == 0

    def test_refused_connection_fails(self, probe_setup):
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{held.getsockname()[1]}"
            passed, words = probe_setup.ask(http={"url": url})
        assert not passed
        assert words.startswith(f"{url} does not answer: ")
        assert words.endswith("Connection refused")

    @pytest.mark.parametrize(
        "says",
        [[], [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"], [b"H", *b"TTP/1.1 200 OK"]],
    )
    def test_server_that_never_answers_times_out(self, probe_setup, says):
        def serve():
            visit, _ = server.accept()
            with visit, contextlib.suppress(OSError):
                for piece in says:  # each piece is an answer of its own to whoever waits for one
                    visit.sendall(piece if isinstance(piece, bytes) else bytes([piece]))
                    time.sleep(0.05)
                over.wait()

        over = threading.Event()
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen()
            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            url = f"http://127.0.0.1:{server.getsockname()[1]}"
            began = time.monotonic()
            assert probe_setup.ask(http={"url": url}, timeout="300ms") == (
                False,
                f"{url} did not answer within 0.3 s",
            )
            assert 0.25 < time.monotonic() - began < 5
            over.set()
            thread.join()
        assert probe_setup.at() == 0

    def test_slow_connection_times_out(self, probe_setup, monkeypatch):
        def late(*args, connect=socket.create_connection, **options):
            time.sleep(0.4)
            return connect(*args, **options)

        def serve():
            visit, _ = server.accept()
            with visit, contextlib.suppress(OSError):
                for _ in range(60):  # as long as it says something it is not silent
                    visit.sendall(b"H")
                    time.sleep(0.05)

        monkeypatch.setattr(socket, "create_connection", late)
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen()
            threading.Thread(target=serve, daemon=True).start()
            url = f"http://127.0.0.1:{server.getsockname()[1]}"
            began = time.monotonic()
            assert probe_setup.ask(http={"url": url}, timeout="300ms") == (
                False,
                f"{url} did not answer within 0.3 s",
            )
            assert time.monotonic() - began < 2


class TestCommand:
    def ask(self, probe_setup, script, **judged):
        container = {"image": "busybox", "command": ["sh", "-c", script]}
        text = probe_setup.ask(command={"container": container, **judged})
        assert probe_setup.call(probe_setup.api.list(PODS, "default")).items == []
        return text

    def test_exit_code_is_judged(self, probe_setup):
        assert self.ask(probe_setup, "exit 0") == (True, "it ended with 0")
        assert self.ask(probe_setup, "echo no luck; exit 3") == (
            False,
            "it ended with 3 and wrote 'no luck', and 0 was expected",
        )
        assert self.ask(probe_setup, "exit 3", exitCode=3) == (True, "it ended with 3")

    def test_expression_is_judged(self, probe_setup):
        assert self.ask(probe_setup, "echo 42", expression="exitCode == 0 && stdout == '42'")[0]
        words = "it ended with 1 and wrote '41', and 'stdout == \"42\"' was expected"
        assert self.ask(probe_setup, "echo 41; exit 1", expression='stdout == "42"') == (
            False,
            words,
        )

    @pytest.mark.parametrize("begins", ["é", "xé", "  é"])
    def test_truncated_output_is_not_judged(self, probe_setup, begins):
        async def talk(container):
            container.log.write(begins + "é" * 600_000 + "BAD")
            return 0

        probe_setup.cluster.site.images.register(talk, image="talker")
        text = probe_setup.ask(
            command={"container": {"image": "talker"}, "expression": "!(stdout endsWith 'BAD')"}
        )
        words = (
            "its output is longer than 1048576 bytes, the limit of expressions: write less output"
        )
        assert text == (False, words)

    def test_endless_command_times_out(self, probe_setup):
        container = {"image": "busybox", "command": ["sleep", "1000"]}
        assert probe_setup.ask(command={"container": container}, timeout="20s") == (
            False,
            "there was no answer within 20 s",
        )
        assert probe_setup.call(probe_setup.api.list(PODS, "default")).items == []

    def test_refused_pod_fails(self, probe_setup):
        passed, words = probe_setup.ask(
            command={"container": {"image": "busybox", "name": "Bad Name"}}
        )
        assert not passed
        assert 'spec.containers[0].name: Invalid value: "Bad Name"' in words

    def test_pod_belongs_to_the_subject(self, probe_setup):
        seen = []

        async def look(container):
            seen.append(container.pod["metadata"])
            return 0

        probe_setup.cluster.site.images.register(look, image="looks")
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "flag", "controller": True}
        owner["uid"] = probe_setup.call(probe_setup.api.get(CONFIG_MAPS, "flag", "default"))[
            "metadata"
        ]["uid"]
        probing = probe_setup.probing({"command": {"container": {"image": "looks"}}}, owner=owner)
        (verdict,) = probe_setup.call(probing.at_start())
        assert verdict.passed
        labels = {
            "kscen.io/run": "run-1",
            "chaos-mesh.org/workflow": "w",
            "chaos-mesh.org/controlled-by": "w-node",
        }
        assert seen[0]["labels"] == labels
        assert seen[0]["ownerReferences"] == [owner]
        assert seen[0]["name"].startswith("w-node-probe-")


class TestKubernetes:
    def test_one_object(self, probe_setup):
        form = {"apiVersion": "v1", "kind": "ConfigMap", "name": "flag"}
        assert probe_setup.ask(kubernetes=form) == (True, "object != null of configmaps flag")
        assert probe_setup.ask(kubernetes={**form, "expression": "object.data.size() == 1"})[0]
        assert probe_setup.ask(kubernetes={**form, "name": "no"}) == (
            False,
            "configmaps no: 'object != null' does not hold",
        )
        assert probe_setup.ask(kubernetes={**form, "name": "no", "expression": "object == null"})[0]
        passed, words = probe_setup.ask(
            kubernetes={**form, "name": "no", "expression": "object.data.a == 'b'"}
        )
        assert not passed
        assert words.startswith(
            "configmaps no is not there, and \"object.data.a == 'b'\" has no value: "
        )

    def test_many_objects(self, probe_setup):
        for name in ("a", "b"):
            probe_setup.make(
                CONFIG_MAPS, name, data={"n": name}, metadata={"labels": {"of": "many"}}
            )
        form = {"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": "of=many"}
        assert probe_setup.ask(
            kubernetes={**form, "expression": "objects.map(o, o.data.n) == ['a', 'b']"}
        )[0]
        words = (
            "configmaps with of=many: \"objects.all(o, o.data.n == 'a')\" does not hold for "
            "2 objects"
        )
        assert probe_setup.ask(
            kubernetes={**form, "expression": "objects.all(o, o.data.n == 'a')"}
        ) == (
            False,
            words,
        )
        assert not probe_setup.ask(kubernetes={**form, "labelSelector": "of=none"})[0]

    def test_cluster_wide_objects(self, probe_setup):
        form = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
        ready = "object.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')"
        assert probe_setup.ask(kubernetes={**form, "expression": ready})[0]

    def test_unknown_kind_fails(self, probe_setup):
        assert probe_setup.ask(kubernetes={"apiVersion": "v1", "kind": "Dragon"})[0] is False


UNREADABLE = (
    'Prometheus\' answer has no result that can be read: {{"status": "success", "data": {}}}'
)


class TestPrometheus:
    @pytest.fixture
    def prometheus(self):
        answers = {
            "up": {
                "resultType": "vector",
                "result": [
                    {"metric": {}, "value": [1.5, "1"]},
                    {"metric": {}, "value": [1.5, "0"]},
                ],
            },
            "none": {"resultType": "vector", "result": []},
            "one": {"resultType": "scalar", "result": [1.5, "1.5"]},
            "text": {"resultType": "string", "result": [1.5, "hm"]},
            "empty": {"resultType": "vector"},
            "odd": None,
            "histogram": {
                "resultType": "vector",
                "result": [{"metric": {}, "histogram": [1.5, {"count": "3"}]}],
            },
            "words": {"resultType": "vector", "result": [{"metric": {}, "value": [1.5, "many"]}]},
        }

        def answer(handler):
            url = urlsplit(handler.path)
            query = parse_qs(url.query)["query"][0]
            assert url.path == "/prom/api/v1/query"
            if query not in answers:
                return 400, json.dumps(
                    {"status": "error", "errorType": "bad_data", "error": f"no {query}"}
                ).encode()
            return 200, json.dumps({"status": "success", "data": answers[query]}).encode()

        with serving(answer) as url:
            yield f"{url}/prom/"

    @pytest.mark.parametrize(
        ("query", "expression", "text"),
        [
            ("up", "value == 1 && len(values) == 2", (True, "up is 1, 0")),
            (
                "up",
                "all(values, {# > 0})",
                (False, "up is 1, 0, and 'all(values, {# > 0})' was expected"),
            ),
            ("up", "", (True, "up is 1, 0")),
            ("none", "", (False, "none is nothing")),
            ("none", "len(values) == 0", (True, "none is nothing")),
            ("one", "value < 2", (True, "one is 1.5")),
            (
                "text",
                "",
                (False, "an instant query gives a vector or a scalar, and this one a string"),
            ),
            ("wrong", "", (False, "Prometheus answered 400: no wrong")),
            ("empty", "value > 0", (False, UNREADABLE.format('{"resultType": "vector"}'))),
            ("odd", "value > 0", (False, UNREADABLE.format("null"))),
            ("histogram", "value > 0", (False, "a sample of Prometheus has no number: None")),
            ("words", "value > 0", (False, "could not convert string to float: 'many'")),
        ],
    )
    def test_query_is_judged(self, probe_setup, prometheus, query, expression, text):
        assert (
            probe_setup.ask(
                prometheus={"url": prometheus, "query": query, "expression": expression}
            )
            == text
        )

    def test_expression_without_a_value_fails(self, probe_setup, prometheus):
        passed, words = probe_setup.ask(
            prometheus={"url": prometheus, "query": "none", "expression": "value > 1"}
        )
        assert not passed
        assert "nil" in words

    def test_invalid_expression_is_refused(self):
        form = {"url": "http://a.b", "query": "up", "expression": "valeu > 1"}
        with pytest.raises(
            InvalidProbe, match=r"^probe\.prometheus\.expression: .*there is no variable 'valeu'"
        ):
            Probe.of({"name": "p", "when": "End", "prometheus": form})
