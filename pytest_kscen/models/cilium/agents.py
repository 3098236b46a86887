"""Cilium's agents on the parent's nodes: they follow policies and the machines' pods, and decide on
flows.

A change takes effect when the endpoints have been regenerated, after a second; decisions are cached
until then. A policy that cannot be read is logged and ignored.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from pytest_kscen.embedded.kubelet.network.flows import BLOCKED, NO_IMPAIRMENT
from pytest_kscen.kube.cache import Ref
from pytest_kscen.models.cilium.policies import Pod, may_pass, policies_of
from pytest_kscen.objects.resources import CILIUM_NETWORK_POLICIES, NAMESPACES, PODS
from pytest_kscen.objects.virtualization import VM_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Never

    from pytest_kscen.embedded.kubelet.network.flows import Flow, Impairment, Network
    from pytest_kscen.kube.informer import Informers
    from pytest_kscen.models.cilium.policies import Policy
    from pytest_kscen.objects.resources import Obj

logger = logging.getLogger(__name__)

REGENERATION_DELAY = 1.0  # seconds from a change in the API to its effect on packets
FINISHED_PHASES = ("Succeeded", "Failed")


class CiliumAgents:
    """Filter on the nested cluster's network, made of all agents of the parent.

    A machine is identified by the label of its pod.
    """

    def __init__(self, informers: Informers, network: Network, namespace: str) -> None:
        self._namespace = namespace
        self._network = network
        self._policies: dict[Ref, list[Policy]] = {}
        self._pods: dict[str, dict[str, Pod]] = {}
        self._labels: dict[str, str] = {}
        self._decisions: dict[Flow, bool] = {}
        self._informers = informers
        self._caches = [
            informers.of(resource) for resource in (NAMESPACES, PODS, CILIUM_NETWORK_POLICIES)
        ]

    async def run(self) -> Never:
        for cache in self._caches:
            await cache.synced()
        handlers = (self._namespace_changed, self._pod_changed, self._policy_changed)
        for cache, handler in zip(self._caches, handlers, strict=True):
            cache.on_change(handler)
        self._network.add_filter(self.impairment)
        forever: asyncio.Future[Never] = asyncio.get_running_loop().create_future()
        await forever

    def impairment(self, flow: Flow) -> Impairment:
        """Return True if the policies let a flow pass. Called as the network's filter."""
        if not self._policies:
            return NO_IMPAIRMENT
        passes = self._decisions.get(flow)
        if passes is None:
            source, target = self._pod_of(flow.source), self._pod_of(flow.target)
            if source is None or target is None:
                passes = True  # a machine without a pod has no power either
            else:
                policies = [policy for one in self._policies.values() for policy in one]
                passes = may_pass(policies, source, target, flow.protocol, flow.port)
            self._decisions[flow] = passes
        return NO_IMPAIRMENT if passes else BLOCKED

    def _pod_of(self, machine: str) -> Pod | None:
        return next(reversed(self._pods.get(machine, {}).values()), None)

    def _policy_changed(self, new: Obj | None, old: Obj | None) -> None:
        if (
            new
            and old
            and (new.get("spec"), new.get("specs")) == (old.get("spec"), old.get("specs"))
        ):
            return
        ref = Ref.of(new or old)  # type: ignore[arg-type]  # one of them is there

        def set_policies() -> None:
            self._policies.pop(ref, None)
            if new is None:
                return
            try:
                self._policies[ref] = policies_of(new)
            except (KeyError, TypeError, ValueError) as error:  # real agents continue, too
                logger.warning("policy %s/%s is invalid and has no effect: %r", *ref, error)

        self._schedule(set_policies)

    def _pod_changed(self, new: Obj | None, old: Obj | None) -> None:
        now, before = self._endpoint(new), self._endpoint(old)
        if now == before:
            return
        metadata = (new or old)["metadata"]  # type: ignore[index]  # one of them is there
        machine = (now or before).labels[VM_LABEL]  # type: ignore[union-attr]
        self._schedule(lambda: self._set_pod(machine, metadata["uid"], now))

    def _set_pod(self, machine: str, uid: str, pod: Pod | None) -> None:
        pods = self._pods.setdefault(machine, {})
        pods.pop(uid, None)
        if pod:
            pods[uid] = pod

    def _endpoint(self, pod: Obj | None) -> Pod | None:
        """Return a machine's pod as policies select it, or None for other and for finished
        pods.
        """
        labels = pod["metadata"].get("labels") or {} if pod else {}
        if not pod or VM_LABEL not in labels or pod["metadata"]["namespace"] != self._namespace:
            return None
        if (pod.get("status") or {}).get("phase") in FINISHED_PHASES:
            return None
        return Pod.of(self._namespace, labels, self._labels)

    def _namespace_changed(self, new: Obj | None, _: Obj | None) -> None:
        if new and new["metadata"]["name"] == self._namespace:
            labels = new["metadata"].get("labels") or {}
            if labels != self._labels:
                self._labels = labels

                def relabel() -> None:
                    for pod in self._informers.of(PODS):
                        if now := self._endpoint(pod):
                            self._set_pod(now.labels[VM_LABEL], pod["metadata"]["uid"], now)

                self._schedule(relabel)

    def _schedule(self, change: Callable[[], None]) -> None:
        """Apply a change after the delay, and let all flows be decided anew."""

        def take_effect() -> None:
            change()
            self._decisions.clear()
            self._network.changed()

        asyncio.get_running_loop().call_later(REGENERATION_DELAY, take_effect)
