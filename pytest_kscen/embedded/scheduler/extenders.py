"""HTTP extenders: connection, JSON of k8s.io/kube-scheduler/extender/v1, and interpretation.

Requests run in a thread with a deadline on the wall clock; simulated time stands still meanwhile.
Failures are worded as Go words them. Field names are Go's own and, as in Go, matched regardless of
case.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import ssl
import tempfile
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson

from pytest_kscen.embedded.scheduler.framework.extender import (
    ExtenderError,
    ExtenderFilterResult,
    Victims,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.configuration import ExtenderConfiguration
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.embedded.scheduler.framework.snapshot import Snapshot
    from pytest_kscen.objects.resources import Obj


SHUT_BOTH = 2
HEADERS = {
    "Content-Type": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": "Go-http-client/1.1",
}
TIMED_OUT = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
UNTRUSTED_CHAIN_ERRORS = {
    18,
    19,
    20,
    21,
    27,
}  # OpenSSL's codes for chains without a trusted root


class ExtenderConnection:
    """Address and TLS settings of an extender; each request opens a connection of its own.
    ValueError if the TLS settings are unusable.
    """

    def __init__(self, configuration: ExtenderConfiguration) -> None:
        self._url = configuration.url.rstrip("/")
        self._parts = urlsplit(self._url)
        self._timeout = configuration.timeout
        self._server_name: str = configuration.tls.get("serverName") or self._parts.hostname or ""
        try:
            self._context = _ssl_context(configuration) if self._parts.scheme == "https" else None
        except (OSError, ValueError) as error:
            raise ValueError(f"extenders: {self._url}: tlsConfig: {error}") from None

    async def post(self, verb: str, question: Any) -> Any:
        """Send a request to a verb's path and return the decoded response; ExtenderError if there
        is none.
        """
        body = orjson.dumps(question)
        return await asyncio.get_running_loop().run_in_executor(None, self._post, verb, body)

    def _post(self, verb: str, body: bytes) -> Any:
        url = f"{self._url}/{verb}"
        call = _TimedRequest(
            self._parts.hostname or "",
            self._parts.port,
            self._timeout,
            self._context,
            self._server_name,
        )
        try:
            status, answer = call.send(f"{self._parts.path}/{verb}", body)
        except (OSError, http.client.HTTPException) as error:
            why = (
                TIMED_OUT
                if call.overdue or isinstance(error, TimeoutError)
                else _go_error(error, call.where)
            )
            raise ExtenderError(f'Post "{url}": {why}') from None
        if status != http.client.OK:
            raise ExtenderError(f"failed {verb} with extender at URL {url}, code {status}")
        try:
            return orjson.loads(answer)
        except orjson.JSONDecodeError as error:
            raise ExtenderError(
                f"the response of the extender at {url} is not JSON: {error}"
            ) from None


class _TimedRequest:
    """Connection for one request, aborted from a timer thread when its time is over: socket
    timeouts alone would not bound the whole exchange.
    """

    def __init__(
        self,
        host: str,
        port: int | None,
        timeout: float,
        context: ssl.SSLContext | None,
        server_name: str,
    ) -> None:
        self._connection = http.client.HTTPConnection(
            host, port or (443 if context else 80), timeout=timeout
        )
        self.where = f"{host}:{self._connection.port}"
        self._timeout = timeout
        self._context = context
        self._server_name = server_name
        self.overdue = False

    def send(self, path: str, body: bytes) -> tuple[int, bytes]:
        def abort() -> None:
            self.overdue = True
            with contextlib.suppress(OSError):
                if self._connection.sock is not None:
                    self._connection.sock.shutdown(SHUT_BOTH)

        deadline = threading.Timer(self._timeout, abort)
        deadline.daemon = True
        deadline.start()
        try:
            self._connection.connect()
            if self._context is not None:
                self._connection.sock = self._context.wrap_socket(
                    self._connection.sock, server_hostname=self._server_name
                )
            self._connection.request("POST", path, body, HEADERS)
            response = self._connection.getresponse()
            return response.status, response.read()
        finally:
            deadline.cancel()
            self._connection.close()


def _ssl_context(configuration: ExtenderConfiguration) -> ssl.SSLContext:
    """Return the TLS context of a configuration. As in kube-scheduler, enableHTTPS without a CA
    trusts any certificate.
    """
    tls = configuration.tls
    authority = _read_file_or_data(tls, "ca")
    if tls.get("insecure") and authority:
        raise ValueError(
            "specifying a root certificates file with the insecure flag is not allowed"
        )
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if tls.get("insecure") or (configuration.https and not authority):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    certificate, key = _read_file_or_data(tls, "cert"), _read_file_or_data(tls, "key")
    if certificate and key:
        with tempfile.NamedTemporaryFile(suffix=".pem") as both:
            both.write(certificate + b"\n" + key)
            both.flush()
            context.load_cert_chain(both.name)
    return context


def _read_file_or_data(tls: Mapping[str, Any], what: str) -> bytes:
    if data := tls.get(f"{what}Data"):
        return base64.b64decode(data)
    if path := tls.get(f"{what}File"):
        with open(path, "rb") as file:  # noqa: PTH123  # read once, when the configuration is
            return file.read()
    return b""


def _go_error(error: Exception, where: str) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        words = (
            "certificate signed by unknown authority"
            if error.verify_code in UNTRUSTED_CHAIN_ERRORS
            else error.verify_message
        )
        return f"tls: failed to verify certificate: x509: {words}"
    if isinstance(error, ConnectionRefusedError):
        return f"dial tcp {where}: connect: connection refused"
    if isinstance(
        error, http.client.RemoteDisconnected | ssl.SSLEOFError | http.client.IncompleteRead
    ):
        return "EOF"
    if type(error).__name__ == "gaierror":
        return f"dial tcp: lookup {where.rpartition(':')[0]}: no such host"
    return str(error)


def read_field(answer: Any, name: str) -> Any:
    """Return a field of a decoded response, matched regardless of case; None if it is absent."""
    if not isinstance(answer, dict):
        return None
    if name in answer:
        return answer[name]
    return next((value for key, value in answer.items() if key.lower() == name.lower()), None)


def without_managed_fields(obj: Obj) -> Obj:
    """Return the object without managedFields, as the scheduler's informers keep it."""
    return {
        **obj,
        "metadata": {
            name: value for name, value in obj["metadata"].items() if name != "managedFields"
        },
    }


def extender_args(pod: Obj, nodes: Sequence[NodeInfo], *, by_name: bool) -> Obj:
    if by_name:
        return {
            "Pod": without_managed_fields(pod),
            "Nodes": None,
            "NodeNames": [node.name for node in nodes],
        }
    return {
        "Pod": without_managed_fields(pod),
        "Nodes": {"metadata": {}, "items": [without_managed_fields(node.node) for node in nodes]},
        "NodeNames": None,
    }


def read_filter_result(answer: Any, *, by_name: bool) -> list[str]:
    names = read_field(answer, "NodeNames")
    if by_name and names is not None:
        return list(names)
    return [
        node["metadata"]["name"] for node in read_field(read_field(answer, "Nodes"), "items") or ()
    ]


def read_host_priorities(answer: Any) -> dict[str, int]:
    """Return the scores of a HostPriorityList by host; several scores of one host are added."""
    scores: dict[str, int] = {}
    for one in answer or ():
        host = read_field(one, "Host")
        scores[host] = scores.get(host, 0) + int(read_field(one, "Score") or 0)
    return scores


def extender_preemption_args(pod: Obj, candidates: Mapping[str, Victims], *, by_name: bool) -> Obj:
    """Return ExtenderPreemptionArgs with the candidates' victims, by uid or as objects."""
    named = {
        node: {
            "Pods": [
                {"UID": one.uid} if by_name else without_managed_fields(one.obj)
                for one in victims.pods
            ],
            "NumPDBViolations": victims.violations,
        }
        for node, victims in candidates.items()
    }
    return {
        "Pod": without_managed_fields(pod),
        "NodeNameToVictims": None if by_name else named,
        "NodeNameToMetaVictims": named if by_name else None,
    }


def read_preemption_result(answer: Any) -> Iterable[tuple[str, list[str], int]]:
    """Yield node name, uids of the victims, and number of violated budgets for each node of an
    ExtenderPreemptionResult.
    """
    for node, victims in (read_field(answer, "NodeNameToMetaVictims") or {}).items():
        uids = [read_field(pod, "UID") for pod in read_field(victims, "Pods") or ()]
        yield node, uids, int(read_field(victims, "NumPDBViolations") or 0)


def extender_binding_args(pod: Obj, node: str) -> Obj:
    metadata = pod["metadata"]
    return {
        "PodName": metadata["name"],
        "PodNamespace": metadata["namespace"],
        "PodUID": metadata["uid"],
        "Node": node,
    }


class HttpExtender:
    """Extender as a configuration describes it; implements `framework.extender.Extender`. Decoded
    responses are added to the attempt's record.
    """

    def __init__(self, configuration: ExtenderConfiguration, snapshot: Snapshot) -> None:
        self.name = configuration.url
        self.weight = configuration.weight
        self.ignorable = configuration.ignorable
        self.filters = bool(configuration.filter)
        self.prioritizes = bool(configuration.prioritize)
        self.preempts = bool(configuration.preempt)
        self.binds = bool(configuration.bind)
        self._configuration = configuration
        self._by_name = configuration.node_cache_capable
        self._managed = frozenset(configuration.managed)
        self._snapshot = snapshot
        self._endpoint = ExtenderConnection(configuration)

    def is_interested(self, pod: PodInfo) -> bool:
        """Return True if the pod requests a resource that the extender manages, or if it manages
        all pods.
        """
        if not self._managed:
            return True
        containers = [*(pod.spec.get("containers") or ()), *(pod.spec.get("initContainers") or ())]
        resources = [container.get("resources") or {} for container in containers]
        return any(
            not self._managed.isdisjoint(one.get(kind) or ())
            for one in resources
            for kind in ("requests", "limits")
        )

    async def filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> ExtenderFilterResult:
        question = extender_args(pod.obj, nodes, by_name=self._by_name)
        answer = await self._call(state, "filter", self._configuration.filter, question)
        by_name = {node.name: node for node in nodes}
        with self._reading_result():
            found = read_filter_result(answer, by_name=self._by_name)
            never = dict(read_field(answer, "FailedAndUnresolvableNodes") or {})
            failed = {
                node: why
                for node, why in (read_field(answer, "FailedNodes") or {}).items()
                if node not in never
            }
        for name in found:
            if name not in by_name:
                words = (
                    f'extender "{self.name}" claims a filtered node "{name}" which is not '
                    "found in the input node list"
                )
                raise ExtenderError(words)
        return ExtenderFilterResult([by_name[name] for name in found], failed, never)

    async def prioritize(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> dict[str, int]:
        question = extender_args(pod.obj, nodes, by_name=self._by_name)
        answer = await self._call(state, "prioritize", self._configuration.prioritize, question)
        with self._reading_result():
            return read_host_priorities(answer)

    async def preempt(
        self, state: CycleState, pod: PodInfo, victims: dict[str, Victims]
    ) -> dict[str, Victims]:
        question = extender_preemption_args(pod.obj, victims, by_name=self._by_name)
        answer = await self._call(state, "preempt", self._configuration.preempt, question)
        with self._reading_result():
            found: dict[str, Victims] = {}
            for name, uids, violations in read_preemption_result(answer):
                node = self._snapshot.get(name)
                if node is None:
                    raise ExtenderError(f'nodeinfo not found for node name "{name}"')
                for uid in uids:
                    if uid not in node.pods:
                        words = (
                            f"claims to preempt pod (UID: &{{{uid}}}) on node: {name}, but the "
                            "pod is not found on that node"
                        )
                        raise ExtenderError(f"extender: {self.name} {words}")
                found[name] = Victims([node.pods[uid] for uid in uids], violations)
            return found

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        await self._call(
            state, "bind", self._configuration.bind, extender_binding_args(pod.obj, node)
        )

    async def _call(self, state: CycleState, what: str, verb: str, question: Obj) -> Any:
        answer = await self._endpoint.post(verb, question)
        if state.attempt is not None:
            state.attempt.extenders.setdefault(what, {})[self.name] = answer
        if error := read_field(answer, "Error"):
            raise ExtenderError(error)
        return answer

    @contextlib.contextmanager
    def _reading_result(self) -> Iterator[None]:
        try:
            yield
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ExtenderError(
                f"unexpected response of the extender {self.name}: {error!r}"
            ) from None
