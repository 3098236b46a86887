import base64
import datetime
import http.server
import ipaddress
import json
import socketserver
import ssl
import threading
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from scheduler_cluster import SchedulerCluster

from pytest_kscen.chance import Chance
from pytest_kscen.embedded.scheduler.configuration_loading import load_configuration
from pytest_kscen.embedded.scheduler.registry import Registry
from pytest_kscen.embedded.scheduler.result_annotations import result_annotations
from pytest_kscen.objects.resources import PODS
from pytest_kscen.objects.scenarios import RESULTS, parsed
from pytest_kscen.scenario.analysis.pods import PodAttempt as Analysed

TARGET = {"apiVersion": "v1", "kind": "Node"}


def certificate():
    """Return a key and a self-signed certificate as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "extender")])
    alternatives = [
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.DNSName("extender.example"),
    ]
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), 7)
        .not_valid_before(datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
        .not_valid_after(datetime.datetime(2120, 1, 1, tzinfo=datetime.UTC))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private, signed.public_bytes(serialization.Encoding.PEM)


class ExtenderServer:
    """HTTP server of an extender.

    Each path answers by its function, with JSON or with a code and bytes; all requests are
    recorded.
    """

    def __init__(self, folder, *, secure=False, asks_for=b""):
        self.asked, self.answers = [], {}
        extender_server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                verb = self.path.removeprefix("/root/")
                extender_server.asked.append((verb, question))
                answer = extender_server.answers[verb](question)
                code, body = (
                    answer if isinstance(answer, tuple) else (200, json.dumps(answer).encode())
                )
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None
        if secure:
            key, self.certificate = certificate()
            (folder / "chain.pem").write_bytes(key + self.certificate)
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(folder / "chain.pem")
            if asks_for:
                tls.verify_mode = ssl.CERT_REQUIRED
                tls.load_verify_locations(cadata=asks_for.decode())
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.url = f"http{'s' if secure else ''}://127.0.0.1:{self._server.server_address[1]}/root"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def verbs(self):
        return [verb for verb, _ in self.asked]

    def filter_by(self, judge, *, by_name=False, **more):
        """Filter out the nodes for which the function returns a reason."""

        def answer(question):
            names = (
                question["NodeNames"]
                if by_name
                else [node["metadata"]["name"] for node in question["Nodes"]["items"]]
            )
            failed = {name: why for name in names if (why := judge(name))}
            kept = [name for name in names if name not in failed]
            if by_name:
                return {"nodenames": kept, "failedNodes": failed, **more}
            items = [
                node for node in question["Nodes"]["items"] if node["metadata"]["name"] in kept
            ]
            return {"Nodes": {"items": items}, "FailedNodes": failed, **more}

        self.answers["filter"] = answer


class ResultSink:
    def __init__(self):
        self.attempts = []

    async def record(self, attempt):
        self.attempts.append(attempt)


class WaitingCluster(SchedulerCluster):
    """Cluster that waits for real responses before time advances."""

    def advance(self, seconds=0):
        super().advance(seconds or 0.001)


@pytest.fixture
def opened(tmp_path):
    made = []

    def open_(**parts):
        made.append(ExtenderServer(tmp_path, **parts))
        return made[-1]

    yield open_
    for one in made:
        one.close()


@pytest.fixture
def extender_server(opened):
    return opened()


@pytest.fixture
def make_cluster(api, runner):
    """A hall whose scheduler asks this one."""

    def make(extender_server, **extender):
        extender = {"urlPrefix": extender_server.url, **extender}
        obj = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "extenders": [extender],
        }
        cluster = WaitingCluster(
            api,
            runner,
            Chance("hall"),
            {"configuration": load_configuration(obj, Registry()), "sink": ResultSink()},
        )
        cluster.attempts = cluster.scheduler._cycle.sink.attempts
        return cluster

    return make


def analysed(attempt):
    """Return the results as a scenario's results show them."""
    results = {
        key.removeprefix(RESULTS): parsed(value)
        for key, value in result_annotations(attempt).items()
    }
    return Analysed("default", "p", attempt.number, results=results)


class TestFilter:
    @pytest.mark.parametrize("by_name", [False, True])
    def test_filtered_nodes_are_excluded(self, make_cluster, extender_server, by_name):
        cluster = make_cluster(extender_server, filterVerb="filter", nodeCacheCapable=by_name)
        cluster.nodes(3)
        extender_server.filter_by(
            lambda name: "" if name == "n2" else "not on my watch", by_name=by_name
        )
        assert cluster.pod(labels={"a": "b"}) == "n2"
        [(_, question)] = extender_server.asked
        assert set(question) == {"Pod", "Nodes", "NodeNames"}
        assert question["Pod"]["metadata"]["labels"] == {"a": "b"}
        assert "managedFields" not in question["Pod"]["metadata"]
        assert (question["Nodes"] is None) == by_name
        assert list(cluster.attempts[0].extenders["filter"]) == [extender_server.url]
        assert cluster.attempts[0].extenders["filter"][extender_server.url].get(
            "FailedNodes", {}
        ).keys() in (
            {"n1", "n3"},
            set(),
        )
        assert analysed(cluster.attempts[0]).feasible == ["n2"]
        assert analysed(cluster.attempts[0]).rejected["n1"][0] == extender_server.url

    def test_all_nodes_filtered(self, make_cluster, extender_server):
        cluster = make_cluster(extender_server, filterVerb="filter")
        cluster.nodes(2)
        extender_server.filter_by(lambda _: "no")
        assert cluster.pod() is None
        assert cluster.why().startswith("0/2 nodes are available: 2 no.")

    def test_unresolvable_nodes(self, make_cluster, extender_server):
        cluster = make_cluster(extender_server, filterVerb="filter")
        cluster.nodes(2)
        extender_server.filter_by(lambda _: "no", FailedAndUnresolvableNodes={"n1": "never"})
        assert cluster.pod() is None
        assert cluster.why().startswith("0/2 nodes are available: 1 never, 1 no.")

    def test_managed_resources_limit_calls(self, make_cluster, extender_server):
        cluster = make_cluster(
            extender_server,
            filterVerb="filter",
            managedResources=[{"name": "example.com/x", "ignoredByScheduler": True}],
        )
        cluster.nodes(1)
        extender_server.filter_by(lambda _: "")
        assert cluster.pod("plain") == "n1"
        assert extender_server.asked == []
        required = {
            "resources": {"requests": {"example.com/x": "1"}, "limits": {"example.com/x": "1"}}
        }
        assert cluster.pod("needy", container=required) == "n1"
        assert extender_server.verbs() == ["filter"]

    def test_unknown_node_in_response_is_error(self, make_cluster, extender_server):
        cluster = make_cluster(extender_server, filterVerb="filter", nodeCacheCapable=True)
        cluster.nodes(1)
        extender_server.answers["filter"] = lambda _: {"NodeNames": ["other"]}
        cluster.pod()
        assert failure(cluster).endswith(
            'claims a filtered node "other" which is not found in the input node list'
        )


def failure(cluster, name="p"):
    return next(message for reason, message in cluster.events(name) if reason == "FailedScheduling")


class TestFailures:
    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            (lambda _: {"Error": "I am out of order"}, "I am out of order"),
            (lambda _: (500, b""), "failed filter with extender at URL {url}/filter, code 500"),
            (
                lambda _: (200, b"<html>"),
                "the response of the extender at {url}/filter is not JSON: ",
            ),
            (
                lambda _: {"Nodes": {"items": [7]}},
                "unexpected response of the extender {url}: ",
            ),
            (lambda _: time.sleep(1) or {}, 'Post "{url}/filter": context deadline exceeded'),
        ],
    )
    def test_failed_call_leaves_pod_unbound(self, make_cluster, extender_server, answer, words):
        cluster = make_cluster(extender_server, filterVerb="filter", httpTimeout="300ms")
        cluster.nodes(1)
        extender_server.answers["filter"] = answer
        assert cluster.pod() is None
        assert words.format(url=extender_server.url) in failure(cluster)

    def test_slow_response_is_aborted(self, make_cluster, tmp_path):
        """Each chunk arrives in time, the whole response does not."""

        class Dripping(socketserver.BaseRequestHandler):
            def handle(self):
                self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
                for _ in range(30):
                    time.sleep(0.05)
                    self.request.sendall(b" ")

        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Dripping) as server:
            server.daemon_threads, server.handle_error = True, lambda *_: None
            server.url = f"http://127.0.0.1:{server.server_address[1]}"
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            cluster = make_cluster(server, filterVerb="filter", httpTimeout="300ms")
            cluster.nodes(1)
            assert cluster.pod() is None
            assert "context deadline exceeded" in failure(cluster)
            server.shutdown()

    def test_unreachable_extender(self, make_cluster, extender_server):
        extender_server.close()
        cluster = make_cluster(extender_server, filterVerb="filter")
        cluster.nodes(1)
        assert cluster.pod() is None
        where = extender_server.url.removeprefix("http://").removesuffix("/root")
        assert (
            f'Post "{extender_server.url}/filter": dial tcp {where}: connect: connection refused'
            in failure(cluster)
        )

    def test_ignorable_extender(self, make_cluster, extender_server):
        cluster = make_cluster(extender_server, filterVerb="filter", ignorable=True)
        cluster.nodes(1)
        extender_server.answers["filter"] = lambda _: (500, b"")
        assert cluster.pod() == "n1"

    def test_calls_take_no_cluster_time(self, make_cluster, extender_server, runner):
        cluster = make_cluster(extender_server, filterVerb="filter")
        cluster.nodes(1)
        extender_server.answers["filter"] = lambda question: (
            time.sleep(0.2) or {"Nodes": question["Nodes"]}
        )
        before = runner.clock.now()
        assert cluster.pod() == "n1"
        assert runner.clock.now() - before < 0.01


class TestPrioritize:
    def test_extender_scores_are_weighted(self, make_cluster, extender_server):
        """By what is left, n2 is better by far; with 9 times 2 times 10 points, n1 is."""
        cluster = make_cluster(extender_server, prioritizeVerb="prioritize", weight=2)
        cluster.node("n1", cpu="2")
        cluster.node("n2", cpu="64", memory="64Gi")
        extender_server.answers["prioritize"] = lambda _: [
            {"Host": "n1", "Score": 9},
            {"Host": "n2", "Score": 0},
        ]
        assert cluster.pod(cpu="1") == "n1"
        assert cluster.attempts[0].extenders["prioritize"][extender_server.url][0] == {
            "Host": "n1",
            "Score": 9,
        }
        assert analysed(cluster.attempts[0]).scores["n1"][extender_server.url] == 9
        assert analysed(cluster.attempts[0]).final_scores["n1"][extender_server.url] == 180
        assert list(analysed(cluster.attempts[0]).totals) == ["n1", "n2"]

    @pytest.mark.parametrize(
        "answer",
        [lambda _: (500, b""), lambda _: {"no": "list"}, lambda _: [{"Host": "n1", "Score": "x"}]],
    )
    def test_prioritize_failure_is_ignored(self, make_cluster, extender_server, answer):
        cluster = make_cluster(extender_server, prioritizeVerb="prioritize", weight=1)
        cluster.nodes(2)
        extender_server.answers["prioritize"] = answer
        assert cluster.pod() in {"n1", "n2"}


class TestPreempt:
    @pytest.mark.parametrize("by_name", [False, True])
    def test_extender_selects_victims(self, make_cluster, extender_server, by_name):
        cluster = make_cluster(extender_server, preemptVerb="preempt", nodeCacheCapable=by_name)
        uids = {}
        for node in ("n1", "n2"):
            cluster.node(node, cpu="2")
            cluster.pod(f"v-{node}", cpu="2", nodeName=node, terminationGracePeriodSeconds=0)
            uids[node] = cluster.get(f"v-{node}")["metadata"]["uid"]
        meta = {"n2": {"Pods": [{"UID": uids["n2"]}], "NumPDBViolations": 0}}
        extender_server.answers["preempt"] = lambda _: {"NodeNameToMetaVictims": meta}
        cluster.pod(cpu="2", priority=100)
        cluster.advance(5)
        assert cluster.where() == "n2"
        [(_, question)] = extender_server.asked
        named = question["NodeNameToMetaVictims" if by_name else "NodeNameToVictims"]
        assert question["NodeNameToVictims" if by_name else "NodeNameToMetaVictims"] is None
        found = {
            node: [pod["UID"] if by_name else pod["metadata"]["uid"] for pod in one["Pods"]]
            for node, one in named.items()
        }
        assert found == {node: [uid] for node, uid in uids.items()}
        assert (
            "preempt"
            in next(attempt for attempt in cluster.attempts if attempt.nominated).extenders
        )

    def test_unknown_victim_is_error(self, make_cluster, extender_server):
        cluster = make_cluster(extender_server, preemptVerb="preempt")
        cluster.node("n1", cpu="2")
        cluster.pod("v", cpu="2", nodeName="n1")
        extender_server.answers["preempt"] = lambda _: {
            "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "x"}]}}
        }
        cluster.pod(cpu="2", priority=100)
        assert "deletionTimestamp" not in cluster.get("v")["metadata"]
        words = (
            f"extender: {extender_server.url} claims to preempt pod (UID: &{{x}}) on node: n1, but "
            "the pod is not found on that node"
        )
        assert words in failure(cluster)


class TestBind:
    def test_extender_binds(self, make_cluster, extender_server, runner):
        cluster = make_cluster(extender_server, bindVerb="bind")
        cluster.nodes(1)
        extender_server.answers["bind"] = lambda _: {"Error": ""}
        cluster.pod()
        [(_, question)] = extender_server.asked
        uid = cluster.get()["metadata"]["uid"]
        assert question == {"PodName": "p", "PodNamespace": "default", "PodUID": uid, "Node": "n1"}
        assert cluster.where() is None
        binding = {
            "metadata": {"name": "p", "namespace": "default"},
            "target": {**TARGET, "name": "n1"},
        }
        cluster.ask(cluster.api.create(PODS, binding, "default", name="p", subresource="binding"))
        assert cluster.where() == "n1"

    def test_failed_bind(self, make_cluster, extender_server):
        cluster = make_cluster(extender_server, bindVerb="bind")
        cluster.nodes(1)
        extender_server.answers["bind"] = lambda _: {"Error": "no glue"}
        cluster.pod()
        assert failure(cluster) == "no glue"


class TestTls:
    @pytest.fixture
    def secured(self, opened):
        extender_server = opened(secure=True)
        extender_server.filter_by(lambda _: "")
        return extender_server

    def bundle(self, extender_server):
        return base64.b64encode(extender_server.certificate).decode()

    @pytest.mark.parametrize("how", ["data", "file"])
    def test_ca_is_verified(self, make_cluster, secured, tmp_path, how):
        (tmp_path / "ca.pem").write_bytes(secured.certificate)
        tls = (
            {"caData": self.bundle(secured)}
            if how == "data"
            else {"caFile": str(tmp_path / "ca.pem")}
        )
        cluster = make_cluster(secured, filterVerb="filter", enableHTTPS=True, tlsConfig=tls)
        cluster.nodes(1)
        assert cluster.pod() == "n1"

    @pytest.mark.parametrize("parts", [{"enableHTTPS": True}, {"tlsConfig": {"insecure": True}}])
    def test_insecure_skips_verification(self, make_cluster, secured, parts):
        cluster = make_cluster(secured, filterVerb="filter", **parts)
        cluster.nodes(1)
        assert cluster.pod() == "n1"

    def test_untrusted_certificate_is_refused(self, make_cluster, secured):
        cluster = make_cluster(secured, filterVerb="filter")
        cluster.nodes(1)
        assert cluster.pod() is None
        assert (
            "tls: failed to verify certificate: x509: certificate signed by unknown authority"
            in failure(cluster)
        )

    @pytest.mark.parametrize(
        ("name", "where"), [("extender.example", "n1"), ("other.example", None)]
    )
    def test_server_name_is_verified(self, make_cluster, secured, name, where):
        tls = {"caData": self.bundle(secured), "serverName": name}
        cluster = make_cluster(secured, filterVerb="filter", enableHTTPS=True, tlsConfig=tls)
        cluster.nodes(1)
        assert cluster.pod() == where

    @pytest.mark.parametrize("shows", [True, False])
    def test_client_certificate_is_sent(self, make_cluster, opened, shows):
        key, mine = certificate()
        extender_server = opened(secure=True, asks_for=mine)
        extender_server.filter_by(lambda _: "")
        own = (
            {"certData": base64.b64encode(mine).decode(), "keyData": base64.b64encode(key).decode()}
            if shows
            else {}
        )
        cluster = make_cluster(
            extender_server,
            filterVerb="filter",
            enableHTTPS=True,
            tlsConfig={"caData": self.bundle(extender_server), **own},
        )
        cluster.nodes(1)
        assert cluster.pod() == ("n1" if shows else None)

    @pytest.mark.parametrize(
        ("tls", "words"),
        [
            ({"caFile": "/nowhere"}, "No such file or directory"),
            (
                {"insecure": True, "caData": "eA=="},
                "specifying a root certificates file with the insecure flag is not allowed",
            ),
        ],
    )
    def test_invalid_tls_configuration(self, make_cluster, secured, tls, words):
        with pytest.raises(ValueError, match=words):
            make_cluster(secured, filterVerb="filter", tlsConfig=tls)
