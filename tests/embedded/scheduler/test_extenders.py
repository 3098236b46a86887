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
from hall import Hall

from pytest_kscen.chance import Chance
from pytest_kscen.embedded.scheduler.configuration_loading import load_configuration
from pytest_kscen.embedded.scheduler.registry import Registry
from pytest_kscen.embedded.scheduler.result_annotations import result_annotations
from pytest_kscen.objects.resources import PODS
from pytest_kscen.objects.scenarios import RESULTS, parsed
from pytest_kscen.scenario.analysis.pods import PodAttempt as Analysed

TARGET = {"apiVersion": "v1", "kind": "Node"}


def certificate():
    """A key and a certificate that vouches for itself, as PEM."""
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


class Outside:
    """A real server.

    Each path answers as its function says: with JSON, or with a code and bytes; all questions are
    kept.
    """

    def __init__(self, folder, *, secure=False, asks_for=b""):
        self.asked, self.answers = [], {}
        outside = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                verb = self.path.removeprefix("/root/")
                outside.asked.append((verb, question))
                answer = outside.answers[verb](question)
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
        """Nodes for which the function says something will not do."""

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


class Kept:
    def __init__(self):
        self.attempts = []

    async def record(self, attempt):
        self.attempts.append(attempt)


class Patient(Hall):
    """Waits for real answers: no time is over before they are there."""

    def advance(self, seconds=0):
        super().advance(seconds or 0.001)


@pytest.fixture
def opened(tmp_path):
    made = []

    def open_(**parts):
        made.append(Outside(tmp_path, **parts))
        return made[-1]

    yield open_
    for one in made:
        one.close()


@pytest.fixture
def outside(opened):
    return opened()


@pytest.fixture
def halls(api, runner):
    """A hall whose scheduler asks this one."""

    def make(outside, **extender):
        extender = {"urlPrefix": outside.url, **extender}
        obj = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "extenders": [extender],
        }
        hall = Patient(
            api,
            runner,
            Chance("hall"),
            {"configuration": load_configuration(obj, Registry()), "sink": Kept()},
        )
        hall.attempts = hall.scheduler._cycle.sink.attempts
        return hall

    return make


def analysed(attempt):
    """As whoever reads a scenario's results sees it."""
    results = {
        key.removeprefix(RESULTS): parsed(value)
        for key, value in result_annotations(attempt).items()
    }
    return Analysed("default", "p", attempt.number, results=results)


class TestFilter:
    @pytest.mark.parametrize("by_name", [False, True])
    def test_what_it_leaves(self, halls, outside, by_name):
        hall = halls(outside, filterVerb="filter", nodeCacheCapable=by_name)
        hall.nodes(3)
        outside.filter_by(lambda name: "" if name == "n2" else "not on my watch", by_name=by_name)
        assert hall.pod(labels={"a": "b"}) == "n2"
        [(_, question)] = outside.asked
        assert set(question) == {"Pod", "Nodes", "NodeNames"}
        assert question["Pod"]["metadata"]["labels"] == {"a": "b"}
        assert "managedFields" not in question["Pod"]["metadata"]
        assert (question["Nodes"] is None) == by_name
        assert list(hall.attempts[0].extenders["filter"]) == [outside.url]
        assert hall.attempts[0].extenders["filter"][outside.url].get("FailedNodes", {}).keys() in (
            {"n1", "n3"},
            set(),
        )
        assert analysed(hall.attempts[0]).feasible == ["n2"]
        assert analysed(hall.attempts[0]).rejected["n1"][0] == outside.url

    def test_it_leaves_none(self, halls, outside):
        hall = halls(outside, filterVerb="filter")
        hall.nodes(2)
        outside.filter_by(lambda _: "no")
        assert hall.pod() is None
        assert hall.why().startswith("0/2 nodes are available: 2 no.")

    def test_what_nobody_can_cure(self, halls, outside):
        hall = halls(outside, filterVerb="filter")
        hall.nodes(2)
        outside.filter_by(lambda _: "no", FailedAndUnresolvableNodes={"n1": "never"})
        assert hall.pod() is None
        assert hall.why().startswith("0/2 nodes are available: 1 never, 1 no.")

    def test_only_pods_that_ask_for_what_it_manages(self, halls, outside):
        hall = halls(
            outside,
            filterVerb="filter",
            managedResources=[{"name": "example.com/x", "ignoredByScheduler": True}],
        )
        hall.nodes(1)
        outside.filter_by(lambda _: "")
        assert hall.pod("plain") == "n1"
        assert outside.asked == []
        required = {
            "resources": {"requests": {"example.com/x": "1"}, "limits": {"example.com/x": "1"}}
        }
        assert hall.pod("needy", container=required) == "n1"
        assert outside.verbs() == ["filter"]

    def test_a_node_that_is_not_in_question(self, halls, outside):
        hall = halls(outside, filterVerb="filter", nodeCacheCapable=True)
        hall.nodes(1)
        outside.answers["filter"] = lambda _: {"NodeNames": ["other"]}
        hall.pod()
        assert failure(hall).endswith(
            'claims a filtered node "other" which is not found in the input node list'
        )


def failure(hall, name="p"):
    return next(message for reason, message in hall.events(name) if reason == "FailedScheduling")


class TestWhatGoesWrong:
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
    def test_the_pod_is_not_bound(self, halls, outside, answer, words):
        hall = halls(outside, filterVerb="filter", httpTimeout="300ms")
        hall.nodes(1)
        outside.answers["filter"] = answer
        assert hall.pod() is None
        assert words.format(url=outside.url) in failure(hall)

    def test_who_drips_is_hung_up(self, halls, tmp_path):
        """Each piece comes in time, the whole does not."""

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
            hall = halls(server, filterVerb="filter", httpTimeout="300ms")
            hall.nodes(1)
            assert hall.pod() is None
            assert "context deadline exceeded" in failure(hall)
            server.shutdown()

    def test_nobody_is_there(self, halls, outside):
        outside.close()
        hall = halls(outside, filterVerb="filter")
        hall.nodes(1)
        assert hall.pod() is None
        where = outside.url.removeprefix("http://").removesuffix("/root")
        assert (
            f'Post "{outside.url}/filter": dial tcp {where}: connect: connection refused'
            in failure(hall)
        )

    def test_it_may_be_ignored(self, halls, outside):
        hall = halls(outside, filterVerb="filter", ignorable=True)
        hall.nodes(1)
        outside.answers["filter"] = lambda _: (500, b"")
        assert hall.pod() == "n1"

    def test_time_stands_still_meanwhile(self, halls, outside, runner):
        hall = halls(outside, filterVerb="filter")
        hall.nodes(1)
        outside.answers["filter"] = lambda question: time.sleep(0.2) or {"Nodes": question["Nodes"]}
        before = runner.clock.now()
        assert hall.pod() == "n1"
        assert runner.clock.now() - before < 0.01


class TestPrioritize:
    def test_its_opinion_counts_ten_times_its_weight(self, halls, outside):
        """By what is left, n2 is better by far; with 9 times 2 times 10 points, n1 is."""
        hall = halls(outside, prioritizeVerb="prioritize", weight=2)
        hall.node("n1", cpu="2")
        hall.node("n2", cpu="64", memory="64Gi")
        outside.answers["prioritize"] = lambda _: [
            {"Host": "n1", "Score": 9},
            {"Host": "n2", "Score": 0},
        ]
        assert hall.pod(cpu="1") == "n1"
        assert hall.attempts[0].extenders["prioritize"][outside.url][0] == {
            "Host": "n1",
            "Score": 9,
        }
        assert analysed(hall.attempts[0]).scores["n1"][outside.url] == 9
        assert analysed(hall.attempts[0]).final_scores["n1"][outside.url] == 180
        assert list(analysed(hall.attempts[0]).totals) == ["n1", "n2"]

    @pytest.mark.parametrize(
        "answer",
        [lambda _: (500, b""), lambda _: {"no": "list"}, lambda _: [{"Host": "n1", "Score": "x"}]],
    )
    def test_what_goes_wrong_does_not_matter(self, halls, outside, answer):
        hall = halls(outside, prioritizeVerb="prioritize", weight=1)
        hall.nodes(2)
        outside.answers["prioritize"] = answer
        assert hall.pod() in {"n1", "n2"}


class TestPreempt:
    @pytest.mark.parametrize("by_name", [False, True])
    def test_it_chooses_the_victims(self, halls, outside, by_name):
        hall = halls(outside, preemptVerb="preempt", nodeCacheCapable=by_name)
        uids = {}
        for node in ("n1", "n2"):
            hall.node(node, cpu="2")
            hall.pod(f"v-{node}", cpu="2", nodeName=node, terminationGracePeriodSeconds=0)
            uids[node] = hall.get(f"v-{node}")["metadata"]["uid"]
        meta = {"n2": {"Pods": [{"UID": uids["n2"]}], "NumPDBViolations": 0}}
        outside.answers["preempt"] = lambda _: {"NodeNameToMetaVictims": meta}
        hall.pod(cpu="2", priority=100)
        hall.advance(5)
        assert hall.where() == "n2"
        [(_, question)] = outside.asked
        named = question["NodeNameToMetaVictims" if by_name else "NodeNameToVictims"]
        assert question["NodeNameToVictims" if by_name else "NodeNameToMetaVictims"] is None
        found = {
            node: [pod["UID"] if by_name else pod["metadata"]["uid"] for pod in one["Pods"]]
            for node, one in named.items()
        }
        assert found == {node: [uid] for node, uid in uids.items()}
        assert (
            "preempt" in next(attempt for attempt in hall.attempts if attempt.nominated).extenders
        )

    def test_somebody_who_is_not_there(self, halls, outside):
        hall = halls(outside, preemptVerb="preempt")
        hall.node("n1", cpu="2")
        hall.pod("v", cpu="2", nodeName="n1")
        outside.answers["preempt"] = lambda _: {
            "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "x"}]}}
        }
        hall.pod(cpu="2", priority=100)
        assert "deletionTimestamp" not in hall.get("v")["metadata"]
        words = (
            f"extender: {outside.url} claims to preempt pod (UID: &{{x}}) on node: n1, but "
            "the pod is not found on that node"
        )
        assert words in failure(hall)


class TestBind:
    def test_it_binds(self, halls, outside, runner):
        hall = halls(outside, bindVerb="bind")
        hall.nodes(1)
        outside.answers["bind"] = lambda _: {"Error": ""}
        hall.pod()
        [(_, question)] = outside.asked
        uid = hall.get()["metadata"]["uid"]
        assert question == {"PodName": "p", "PodNamespace": "default", "PodUID": uid, "Node": "n1"}
        assert hall.where() is None
        binding = {
            "metadata": {"name": "p", "namespace": "default"},
            "target": {**TARGET, "name": "n1"},
        }
        hall.ask(hall.api.create(PODS, binding, "default", name="p", subresource="binding"))
        assert hall.where() == "n1"

    def test_it_does_not(self, halls, outside):
        hall = halls(outside, bindVerb="bind")
        hall.nodes(1)
        outside.answers["bind"] = lambda _: {"Error": "no glue"}
        hall.pod()
        assert failure(hall) == "no glue"


class TestSecurely:
    @pytest.fixture
    def secured(self, opened):
        outside = opened(secure=True)
        outside.filter_by(lambda _: "")
        return outside

    def bundle(self, outside):
        return base64.b64encode(outside.certificate).decode()

    @pytest.mark.parametrize("how", ["data", "file"])
    def test_with_its_authority(self, halls, secured, tmp_path, how):
        (tmp_path / "ca.pem").write_bytes(secured.certificate)
        tls = (
            {"caData": self.bundle(secured)}
            if how == "data"
            else {"caFile": str(tmp_path / "ca.pem")}
        )
        hall = halls(secured, filterVerb="filter", enableHTTPS=True, tlsConfig=tls)
        hall.nodes(1)
        assert hall.pod() == "n1"

    @pytest.mark.parametrize("parts", [{"enableHTTPS": True}, {"tlsConfig": {"insecure": True}}])
    def test_trusting_everybody(self, halls, secured, parts):
        hall = halls(secured, filterVerb="filter", **parts)
        hall.nodes(1)
        assert hall.pod() == "n1"

    def test_trusting_nobody(self, halls, secured):
        hall = halls(secured, filterVerb="filter")
        hall.nodes(1)
        assert hall.pod() is None
        assert (
            "tls: failed to verify certificate: x509: certificate signed by unknown authority"
            in failure(hall)
        )

    @pytest.mark.parametrize(
        ("name", "where"), [("extender.example", "n1"), ("other.example", None)]
    )
    def test_by_the_name_that_it_should_have(self, halls, secured, name, where):
        tls = {"caData": self.bundle(secured), "serverName": name}
        hall = halls(secured, filterVerb="filter", enableHTTPS=True, tlsConfig=tls)
        hall.nodes(1)
        assert hall.pod() == where

    @pytest.mark.parametrize("shows", [True, False])
    def test_showing_who_we_are(self, halls, opened, shows):
        key, mine = certificate()
        outside = opened(secure=True, asks_for=mine)
        outside.filter_by(lambda _: "")
        own = (
            {"certData": base64.b64encode(mine).decode(), "keyData": base64.b64encode(key).decode()}
            if shows
            else {}
        )
        hall = halls(
            outside,
            filterVerb="filter",
            enableHTTPS=True,
            tlsConfig={"caData": self.bundle(outside), **own},
        )
        hall.nodes(1)
        assert hall.pod() == ("n1" if shows else None)

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
    def test_what_is_wrong_with_it(self, halls, secured, tls, words):
        with pytest.raises(ValueError, match=words):
            halls(secured, filterVerb="filter", tlsConfig=tls)
