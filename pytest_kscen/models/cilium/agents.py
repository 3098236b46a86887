"""Cilium's agents on the parent's nodes: they follow policies and the machines' pods, and decide on
every flow between machines.

What changes takes effect when the endpoints have been regenerated; decisions are kept until then.
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

REGENERATION_DELAY = 1.0  # seconds from a change in the API to that of what nodes do with packets
FINISHED_PHASES = ("Succeeded", "Failed")


class CiliumAgents:
    """All of them, as one filter on the nested cluster's network.

    A machine is known by the label of its pod.
    """

    def __init__(self, informers: Informers, network: Network, namespace: str) -> None:
        self._namespace = namespace
        self._network = network
        self._policies: dict[Ref, list[Policy]] = {}
        self._pods: dict[str, dict[str, Pod]] = {}
        self._labels: dict[str, str] = {}
        self._decided: dict[Flow, bool] = {}
        self._informers = informers
        self._pictures = [
            informers.of(resource) for resource in (NAMESPACES, PODS, CILIUM_NETWORK_POLICIES)
        ]

    async def run(self) -> Never:
        for picture in self._pictures:
            await picture.synced()
        handlers = (self._namespace_changed, self._pod_changed, self._policy_changed)
        for picture, handler in zip(self._pictures, handlers, strict=True):
            picture.on_change(handler)
        self._network.join(self.passage)
        forever: asyncio.Future[Never] = asyncio.get_running_loop().create_future()
        await forever

    def passage(self, flow: Flow) -> Impairment:
        """The filter."""
        if not self._policies:
            return NO_IMPAIRMENT
        passes = self._decided.get(flow)
        if passes is None:
            passes = self._decided[flow] = self._decide(flow)
        return NO_IMPAIRMENT if passes else BLOCKED

    def _decide(self, flow: Flow) -> bool:
        source, target = self._pod_of(flow.source), self._pod_of(flow.target)
        if source is None or target is None:
            return True  # a machine without a pod has no power either
        policies = [policy for one in self._policies.values() for policy in one]
        return may_pass(policies, source, target, flow.protocol, flow.port)

    def _pod_of(self, machine: str) -> Pod | None:
        """The latest, if a new one has come before the old one is gone."""
        return next(reversed(self._pods.get(machine, {}).values()), None)

    # --- changes ---

    def _policy_changed(self, new: Obj | None, old: Obj | None) -> None:
        if (
            new
            and old
            and (new.get("spec"), new.get("specs")) == (old.get("spec"), old.get("specs"))
        ):
            return
        ref = Ref.of(new or old)  # type: ignore[arg-type]  # one of them is there
        self._later(lambda: self._realize(ref, new))

    def _realize(self, ref: Ref, policy: Obj | None) -> None:
        self._policies.pop(ref, None)
        if policy is None:
            return
        try:
            self._policies[ref] = policies_of(policy)
        except (KeyError, TypeError, ValueError) as error:  # the agents refuse it and go on
            logger.warning("the policy %s/%s is not understood, and does nothing: %r", *ref, error)

    def _pod_changed(self, new: Obj | None, old: Obj | None) -> None:
        now, before = self._endpoint(new), self._endpoint(old)
        if now == before:
            return
        metadata = (new or old)["metadata"]  # type: ignore[index]  # one of them is there
        machine = (now or before).labels[VM_LABEL]  # type: ignore[union-attr]
        self._later(lambda: self._place(machine, metadata["uid"], now))

    def _place(self, machine: str, uid: str, pod: Pod | None) -> None:
        pods = self._pods.setdefault(machine, {})
        pods.pop(uid, None)
        if pod:
            pods[uid] = pod

    def _endpoint(self, pod: Obj | None) -> Pod | None:
        """What a machine's pod is to Cilium, as long as it has one."""
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
                self._later(self._relabel)

    def _relabel(self) -> None:
        for pod in self._informers.of(PODS):
            if now := self._endpoint(pod):
                self._place(now.labels[VM_LABEL], pod["metadata"]["uid"], now)

    def _later(self, change: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(REGENERATION_DELAY, self._take_effect, change)

    def _take_effect(self, change: Callable[[], None]) -> None:
        change()
        self._decided.clear()
        self._network.changed()
