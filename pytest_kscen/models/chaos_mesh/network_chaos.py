"""NetworkChaos: traffic rules at the selected pods, on the cluster's simulated network.

Called by the daemon. A pod is identified by its address; a pod on the host's network is its
machine. After injection the network's impairment of the flows is checked, so that an effect which
other rules cancel is not reported as injected.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pytest_kscen.embedded.kubelet.network.flows import BLOCKED, NO_IMPAIRMENT, Flow, Impairment
from pytest_kscen.models.chaos_mesh.targets import SELF, TARGET_GONE, TargetGone, TargetPending
from pytest_kscen.objects.arguments import seconds_of_text
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.names import dns1035_label, dns1123_label, dns1123_subdomain
from pytest_kscen.objects.resources import NAMESPACES, SERVICES

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.embedded.kubelet.network.flows import Network
    from pytest_kscen.kube.api import Api
    from pytest_kscen.models.chaos_mesh.targets import Target
    from pytest_kscen.objects.resources import Obj


IpRange: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class ExternalTarget(NamedTuple):
    """Addresses outside the cluster, and the only port that is meant; 0 for every port."""

    network: IpRange
    port: int = 0

    def has(self, address: str, port: int) -> bool:
        return (
            bool(address)
            and ipaddress.ip_address(address) in self.network
            and self.port in {0, port}
        )


class TrafficEnd(NamedTuple):
    """Source or destination of packets: a pod's address, or a machine itself, whose address is
    empty.
    """

    machine: str
    address: str = ""

    @property
    def name(self) -> str:
        return self.address or self.machine

    @classmethod
    def of(cls, pod: Obj) -> TrafficEnd | None:
        status, spec = pod.get("status") or {}, pod["spec"]
        if status.get("phase") != "Running" or not status.get("podIP"):
            return None
        return cls(spec["nodeName"], "" if spec.get("hostNetwork") else status["podIP"])


@dataclass(slots=True)
class TrafficRule:
    """Effect of one NetworkChaos on packets between its selected pods and its targets. `hits`
    decides for each new flow; an end is added once its pod runs.
    """

    direction: str
    impairment: Impairment
    has_target: bool
    outside: tuple[ExternalTarget, ...] = ()
    ends: dict[Target, TrafficEnd] = field(default_factory=dict)
    _selected: frozenset[str] = frozenset()
    _aimed_at: frozenset[str] = frozenset()

    def change(self, target: Target, end: TrafficEnd | None) -> None:
        self.ends.pop(target, None)
        if end:
            self.ends[target] = end
        self._selected = frozenset(
            each.name for other, each in self.ends.items() if other.key == SELF
        )
        self._aimed_at = frozenset(
            each.name for other, each in self.ends.items() if other.key != SELF
        )

    def hits(self, source: TrafficEnd, target: TrafficEnd, port: int) -> bool:
        return (self.direction != "from" and self._covers(source, target, port)) or (
            self.direction != "to" and self._covers(target, source, port)
        )

    def _covers(self, here: TrafficEnd, there: TrafficEnd, port: int) -> bool:
        if here.name not in self._selected:
            return False
        if not self.has_target and not self.outside:
            return True  # every peer counts
        return there.name in self._aimed_at or any(
            each.has(there.address, port) for each in self.outside
        )

    def flows(self, target: Target) -> list[Flow]:
        """Return the flows on which an effect at this end can be observed; none without a peer."""
        here, found = self.ends[target], []
        others = [
            (there, 0)
            for other, there in self.ends.items()
            if other.key != target.key and there != here
        ]
        if target.key == SELF:
            others += [
                (TrafficEnd("", str(each.network.network_address)), each.port)
                for each in self.outside
            ]
            if not self.has_target and not self.outside:
                others.append((TrafficEnd("", ""), 0))
        for there, port in others:
            source, destination = (here, there) if target.key == SELF else (there, here)
            if self.direction != "from":
                found.append(flow_between(source, destination, port))
            if self.direction != "to":
                found.append(flow_between(destination, source, port))
        return found

    def all_flows(self) -> list[Flow]:
        return [flow for target in self.ends for flow in self.flows(target)]


def flow_between(source: TrafficEnd, target: TrafficEnd, port: int = 0) -> Flow:
    return Flow(
        source.machine,
        target.machine,
        port=port,
        source_address=source.address,
        target_address=target.address,
    )


PREFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def passage_of(spec: Obj) -> Impairment:
    action = spec["action"]
    if action == "partition":
        return BLOCKED
    impairment = NO_IMPAIRMENT
    for name, read in READERS.items():
        if name == action or (action == "netem" and name != "bandwidth"):
            if (given := spec.get(name)) is not None:
                impairment = impairment.combined_with(read(given))
            elif action != "netem":
                raise ValueError(f"spec.{name} is needed for action {action}")
    if impairment == NO_IMPAIRMENT:
        raise ValueError(f"action {action} does nothing to the packets")
    return impairment


def _rate(spec: Obj) -> Impairment:
    return Impairment(rate=bits_per_second(spec["rate"]))


READERS: dict[str, Callable[[Obj], Impairment]] = {
    "delay": lambda spec: Impairment(
        delay=seconds_of_text(spec["latency"]),
        jitter=seconds_of_text(spec.get("jitter") or "0s"),
        reorder=share((spec.get("reorder") or {}).get("reorder", "0")),
    ),
    "loss": lambda spec: Impairment(loss=share(spec["loss"])),
    "duplicate": lambda spec: Impairment(duplicate=share(spec["duplicate"])),
    "corrupt": lambda spec: Impairment(corrupt=share(spec["corrupt"])),
    "rate": _rate,
    "bandwidth": _rate,
}


def share(percent: str) -> float:
    """Return a percentage as a share: `25` is a quarter of all packets."""
    try:
        value = float(percent)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:  # noqa: PLR2004  # percent
        raise ValueError(f"{percent!r} is not a percentage: write a number from 0 to 100")
    return value / 100


def bits_per_second(rate: str) -> float:
    """Return the bits per second of a rate such as `10mbit`, or in bytes per second `1mbps`. Raises
    ValueError for anything else.
    """
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(bit|bps)\s*", rate.lower())
    if not found:
        raise ValueError(f"{rate!r} is not a rate: write 10mbit, or in bytes 1mbps")
    number, prefix, unit = found.groups()
    return float(number) * PREFIXES[prefix] * (8 if unit == "bps" else 1)


DEVICES = ("", "eth0")


class NetworkEffect:
    """Filter on the cluster's network, made of all NetworkChaos objects. Decisions about flows are
    cached until a rule changes; rules vanish with their objects.
    """

    def __init__(self, network: Network, names: ExternalNames) -> None:
        self._network = network
        self._names = names
        self._rules: dict[str, TrafficRule] = {}
        self._decided: dict[Flow, Impairment] = {}
        network.add_filter(self.impairment)

    def impairment(self, flow: Flow) -> Impairment:
        """Return the combined effect on a flow, as the network's filter."""
        if not self._rules:
            return NO_IMPAIRMENT
        if flow not in self._decided:
            source, target = (
                TrafficEnd(flow.source, flow.source_address),
                TrafficEnd(flow.target, flow.target_address),
            )
            found = NO_IMPAIRMENT
            for rule in self._rules.values():
                if rule.hits(source, target, flow.port):
                    found = (
                        rule.impairment
                        if found is NO_IMPAIRMENT
                        else found.combined_with(rule.impairment)
                    )
            self._decided[flow] = found
        return self._decided[flow]

    async def inject(
        self, chaos: Obj, target: Target, pod: Obj | None
    ) -> TargetPending | TargetGone | None:
        if pod is None:
            return TARGET_GONE
        end = TrafficEnd.of(pod)
        if end is None:
            return TargetPending(f"pod {target.id} does not run")
        uid = chaos["metadata"]["uid"]
        if uid not in self._rules:
            try:
                spec = chaos["spec"]
                for device in (
                    spec.get("device") or "",
                    (spec.get("targetDevice") or "") if spec.get("target") else "",
                ):
                    if device not in DEVICES:
                        return TargetPending(f'Cannot find device "{device}"')
                outside = [
                    await self._names.resolve(each) for each in spec.get("externalTargets") or ()
                ]
                self._rules[uid] = TrafficRule(
                    spec.get("direction") or "to",
                    passage_of(spec),
                    bool(spec.get("target")),
                    tuple(outside),
                )
            except ValueError as why:
                return TargetPending(str(why))
        rule = self._rules[uid]
        if rule.ends.get(target) != end:
            rule.change(target, end)
            self._changed()
        return None

    def unseen(self, chaos: Obj, target: Target) -> str:
        rule = self._rules[chaos["metadata"]["uid"]]
        flows = rule.flows(target) or rule.all_flows()  # without a peer, the others' flows count
        if not flows:
            return "no running pod is at the other end"
        is_effective = all(
            self._network.impairment(flow).is_at_least(rule.impairment) for flow in flows
        )
        return "" if is_effective else "packets still pass as before"

    async def recover(
        self,
        chaos: Obj,
        target: Target,
        pod: Obj | None,  # noqa: ARG002  # rules belong to the target's address
    ) -> TargetPending | TargetGone | None:
        rule = self._rules.get(chaos["metadata"]["uid"])
        if rule and target in rule.ends:
            rule.change(target, None)
            if not rule.ends:
                del self._rules[chaos["metadata"]["uid"]]
            self._changed()
        return None

    def forget(self, chaos: Obj) -> None:
        if self._rules.pop(chaos["metadata"]["uid"], None):
            self._changed()

    def _changed(self) -> None:
        self._decided.clear()
        self._network.changed()


SUFFIXES = (".svc.cluster.local", ".svc")
RESERVED_SUFFIXES = (".cluster.local", ".svc", ".invalid")
"""Suffixes of names that no host outside the cluster has."""
DOCUMENTATION_RANGE = ipaddress.ip_network("2001:db8::/32")
"""Range for documentation. Each external name has a fixed address in it."""


class ExternalNames:
    """Resolver of external targets: addresses, networks and names, with or without a port.

    A name is a Service's in the cluster's DNS, or an outside host's, which gets an address of the
    range for documentation.
    """

    def __init__(self, api: Api) -> None:
        self._api = api

    async def resolve(self, text: str) -> ExternalTarget:
        """Return a target's addresses and its port, which follows a colon. Raises ValueError for a
        name that neither the cluster nor the outside world has.
        """
        place, _, port = text.rpartition(":") if text.count(":") == 1 else (text, "", "")
        if port and not port.isdecimal():
            raise ValueError(f"{text!r} has no port that is a number")
        try:
            network = ipaddress.ip_network(place, strict=False)
        except ValueError:
            network = ipaddress.ip_network(await self._address_of(place.lower().removesuffix(".")))
        return ExternalTarget(network, int(port or 0))

    async def _address_of(self, host: str) -> str:
        bare = next(
            (host.removesuffix(suffix) for suffix in SUFFIXES if host.endswith(suffix)), host
        )
        name, _, namespace = bare.partition(".")
        service: Obj = {}
        if not dns1035_label(name) and not dns1123_label(namespace or "default"):
            with contextlib.suppress(NotFound):
                service = await self._api.get(SERVICES, name, namespace or "default")
        address = str((service.get("spec") or {}).get("clusterIP") or "None")
        if address != "None":
            return address
        is_outside = (
            "." in host and not host.endswith(RESERVED_SUFFIXES) and not dns1123_subdomain(host)
        )
        _, _, domain = host.partition(".")
        if is_outside and "." not in domain:
            with contextlib.suppress(NotFound):  # a name of this cluster, without such a Service
                is_outside = not await self._api.get(NAMESPACES, domain)
        if not is_outside:
            raise ValueError(f"lookup {host}: no such host")
        place = hashlib.sha256(host.encode()).digest()[
            : (DOCUMENTATION_RANGE.max_prefixlen - DOCUMENTATION_RANGE.prefixlen) // 8
        ]
        return str(DOCUMENTATION_RANGE[int.from_bytes(place)])
