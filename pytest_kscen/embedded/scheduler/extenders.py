"""An extender as a configuration describes it: which questions it is asked, and what its answers
mean.
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

from pytest_kscen.embedded.scheduler.framework.extender import ExtenderError, Filtered, Victims

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.configuration import ExtenderConfiguration
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.embedded.scheduler.framework.snapshot import Snapshot
    from pytest_kscen.objects.resources import Obj


# One request to an extender: HTTP or HTTPS, in a thread, with a deadline on the wall clock.
# What goes wrong is told in Go's words. Simulated time stands still until the answer is there.


BOTH_WAYS = 2
HEADERS = {
    "Content-Type": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": "Go-http-client/1.1",
}
TOO_LATE = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
UNTRUSTED = {18, 19, 20, 21, 27}  # OpenSSL's numbers for chains that lead to nobody we trust


class Door:
    """Where an extender is, and how to get in."""

    def __init__(self, configuration: ExtenderConfiguration) -> None:
        self._url = configuration.url.rstrip("/")
        self._parts = urlsplit(self._url)
        self._timeout = configuration.timeout
        self._server_name: str = configuration.tls.get("serverName") or self._parts.hostname or ""
        try:
            self._context = _context(configuration) if self._parts.scheme == "https" else None
        except (OSError, ValueError) as error:
            raise ValueError(f"extenders: {self._url}: tlsConfig: {error}") from None

    async def post(self, verb: str, question: Any) -> Any:
        """The decoded answer; ExtenderError if there is none."""
        body = orjson.dumps(question)
        return await asyncio.get_running_loop().run_in_executor(None, self._posted, verb, body)

    def _posted(self, verb: str, body: bytes) -> Any:
        url = f"{self._url}/{verb}"
        call = _Call(
            self._parts.hostname or "",
            self._parts.port,
            self._timeout,
            self._context,
            self._server_name,
        )
        try:
            status, answer = call.answered(f"{self._parts.path}/{verb}", body)
        except (OSError, http.client.HTTPException) as error:
            why = (
                TOO_LATE
                if call.overdue or isinstance(error, TimeoutError)
                else _why(error, call.where)
            )
            raise ExtenderError(f'Post "{url}": {why}') from None
        if status != http.client.OK:
            raise ExtenderError(f"failed {verb} with extender at URL {url}, code {status}")
        try:
            return orjson.loads(answer)
        except orjson.JSONDecodeError as error:
            raise ExtenderError(
                f"the answer of the extender at {url} is no JSON: {error}"
            ) from None


class _Call:
    """A connection for one request, which is hung up when its time is over."""

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

    def answered(self, path: str, body: bytes) -> tuple[int, bytes]:
        deadline = threading.Timer(self._timeout, self._hang_up)
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

    def _hang_up(self) -> None:
        self.overdue = True
        with contextlib.suppress(OSError):
            if self._connection.sock is not None:
                self._connection.sock.shutdown(BOTH_WAYS)


# --- whom to trust ---


def _context(configuration: ExtenderConfiguration) -> ssl.SSLContext:
    """As the configuration says; with enableHTTPS alone, everybody is trusted."""
    tls = configuration.tls
    authority = _file_or_data(tls, "ca")
    if tls.get("insecure") and authority:
        raise ValueError(
            "specifying a root certificates file with the insecure flag is not allowed"
        )
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if tls.get("insecure") or (configuration.https and not authority):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    certificate, key = _file_or_data(tls, "cert"), _file_or_data(tls, "key")
    if certificate and key:
        with tempfile.NamedTemporaryFile(suffix=".pem") as both:
            both.write(certificate + b"\n" + key)
            both.flush()
            context.load_cert_chain(both.name)
    return context


def _file_or_data(tls: Mapping[str, Any], what: str) -> bytes:
    if data := tls.get(f"{what}Data"):
        return base64.b64decode(data)
    if path := tls.get(f"{what}File"):
        with open(path, "rb") as file:  # noqa: PTH123  # read once, when the configuration is
            return file.read()
    return b""


def _why(error: Exception, where: str) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        words = (
            "certificate signed by unknown authority"
            if error.verify_code in UNTRUSTED
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


# What is said to extenders and what they say: the JSON of k8s.io/kube-scheduler/extender/v1,
# whose names are Go's own. Names are read as Go reads them, whatever the case of their letters.


def field(answer: Any, name: str) -> Any:
    """A field of an answer; None if it is not there."""
    if not isinstance(answer, dict):
        return None
    if name in answer:
        return answer[name]
    return next((value for key, value in answer.items() if key.lower() == name.lower()), None)


def told(obj: Obj) -> Obj:
    """An object as the scheduler knows it: who manages which field is left out."""
    return {
        **obj,
        "metadata": {
            name: value for name, value in obj["metadata"].items() if name != "managedFields"
        },
    }


def about_nodes(pod: Obj, nodes: Sequence[NodeInfo], *, by_name: bool) -> Obj:
    """ExtenderArgs."""
    if by_name:
        return {"Pod": told(pod), "Nodes": None, "NodeNames": [node.name for node in nodes]}
    return {
        "Pod": told(pod),
        "Nodes": {"metadata": {}, "items": [told(node.node) for node in nodes]},
        "NodeNames": None,
    }


def nodes_in(answer: Any, *, by_name: bool) -> list[str]:
    """The names in an ExtenderFilterResult."""
    names = field(answer, "NodeNames")
    if by_name and names is not None:
        return list(names)
    return [node["metadata"]["name"] for node in field(field(answer, "Nodes"), "items") or ()]


def scores_in(answer: Any) -> dict[str, int]:
    """A HostPriorityList; what is said of a host twice is added up."""
    scores: dict[str, int] = {}
    for one in answer or ():
        host = field(one, "Host")
        scores[host] = scores.get(host, 0) + int(field(one, "Score") or 0)
    return scores


def about_victims(pod: Obj, candidates: Mapping[str, Victims], *, by_name: bool) -> Obj:
    """ExtenderPreemptionArgs."""
    named = {
        node: {
            "Pods": [{"UID": one.uid} if by_name else told(one.obj) for one in victims.pods],
            "NumPDBViolations": victims.violations,
        }
        for node, victims in candidates.items()
    }
    return {
        "Pod": told(pod),
        "NodeNameToVictims": None if by_name else named,
        "NodeNameToMetaVictims": named if by_name else None,
    }


def victims_in(answer: Any) -> Iterable[tuple[str, list[str], int]]:
    """Nodes, the uids of their victims and violated budgets, in an ExtenderPreemptionResult."""
    for node, victims in (field(answer, "NodeNameToMetaVictims") or {}).items():
        uids = [field(pod, "UID") for pod in field(victims, "Pods") or ()]
        yield node, uids, int(field(victims, "NumPDBViolations") or 0)


def about_binding(pod: Obj, node: str) -> Obj:
    """ExtenderBindingArgs."""
    metadata = pod["metadata"]
    return {
        "PodName": metadata["name"],
        "PodNamespace": metadata["namespace"],
        "PodUID": metadata["uid"],
        "Node": node,
    }


class HttpExtender:
    """A `framework.extending.Extender`. Its raw answers are recorded with the attempt."""

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
        self._door = Door(configuration)

    def interested(self, pod: PodInfo) -> bool:
        """Whether the pod asks for something that this extender looks after."""
        if not self._managed:
            return True
        containers = [*(pod.spec.get("containers") or ()), *(pod.spec.get("initContainers") or ())]
        return any(not self._managed.isdisjoint(_resources(container)) for container in containers)

    async def filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Filtered:
        question = about_nodes(pod.obj, nodes, by_name=self._by_name)
        answer = await self._ask(state, "filter", self._configuration.filter, question)
        by_name = {node.name: node for node in nodes}
        with self._reading():
            found = nodes_in(answer, by_name=self._by_name)
            never = dict(field(answer, "FailedAndUnresolvableNodes") or {})
            failed = {
                node: why
                for node, why in (field(answer, "FailedNodes") or {}).items()
                if node not in never
            }
        for name in found:
            if name not in by_name:
                words = (
                    f'extender "{self.name}" claims a filtered node "{name}" which is not '
                    "found in the input node list"
                )
                raise ExtenderError(words)
        return Filtered([by_name[name] for name in found], failed, never)

    async def prioritize(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> dict[str, int]:
        question = about_nodes(pod.obj, nodes, by_name=self._by_name)
        answer = await self._ask(state, "prioritize", self._configuration.prioritize, question)
        with self._reading():
            return scores_in(answer)

    async def preempt(
        self, state: CycleState, pod: PodInfo, victims: dict[str, Victims]
    ) -> dict[str, Victims]:
        question = about_victims(pod.obj, victims, by_name=self._by_name)
        answer = await self._ask(state, "preempt", self._configuration.preempt, question)
        with self._reading():
            return {
                node: Victims(self._pods(node, uids), violations)
                for node, uids, violations in victims_in(answer)
            }

    def _pods(self, name: str, uids: list[str]) -> list[PodInfo]:
        node = self._snapshot.get(name)
        if node is None:
            raise ExtenderError(f'nodeinfo not found for node name "{name}"')
        for uid in uids:
            if uid not in node.pods:
                words = (
                    f"claims to preempt pod (UID: &{{{uid}}}) on node: {name}, but the pod is "
                    "not found on that node"
                )
                raise ExtenderError(f"extender: {self.name} {words}")
        return [node.pods[uid] for uid in uids]

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        await self._ask(state, "bind", self._configuration.bind, about_binding(pod.obj, node))

    async def _ask(self, state: CycleState, what: str, verb: str, question: Obj) -> Any:
        answer = await self._door.post(verb, question)
        if state.attempt is not None:
            state.attempt.extenders.setdefault(what, {})[self.name] = answer
        if error := field(answer, "Error"):
            raise ExtenderError(error)
        return answer

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ExtenderError(
                f"the answer of the extender {self.name} is not what was asked for: {error!r}"
            ) from None


def _resources(container: Obj) -> set[str]:
    resources = container.get("resources") or {}
    return {*(resources.get("requests") or ()), *(resources.get("limits") or ())}
