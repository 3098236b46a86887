"""Clients of both clusters for faults, and the Jobs that run shell text on a node of the tested
cluster.
"""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import JOBS, PODS
from pytest_kscen.objects.virtualization import STOPPED, VIRTUAL_MACHINES, phase_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kscen.kube.actor import Actor, RunContext
    from pytest_kscen.objects.resources import Obj, Resource


DELETE_TIMEOUT = 120.0  # seconds within which an object that was deleted has to be gone
TYPE, NODE_A, NODE_B = "chaos.megatest/type", "chaos.megatest/node-a", "chaos.megatest/node-b"
INCIDENT = "kscen.io/incident"


class FaultImpossible(Exception):
    """Failure to inject a fault: the cluster lacks what the fault needs."""


@dataclass(frozen=True, slots=True)
class ClusterClients:
    """Clients of one actor for the tested cluster and its parent."""

    nested: Actor
    parent: Actor | None
    namespace: str
    """Namespace of the virtual machines in the parent."""
    own_machines: frozenset[str] | None = None
    """Machines that may be acted on; None if all may."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Names of the run's volumes without their salt."""

    @classmethod
    def of(cls, context: RunContext, name: str) -> ClusterClients:
        if context.parent is None:
            return cls(context.actor(name), None, "", keys=context.keys)
        return cls(
            context.actor(name),
            context.in_parent(name),
            context.parent.namespace,
            context.parent.machines,
            context.keys,
        )

    @property
    def in_parent(self) -> Actor:
        if self.parent is None:
            raise FaultImpossible(
                f"{self.nested.name} acts on virtual machines, and this run has no "
                "parent cluster that has them"
            )
        return self.parent

    async def machines(self) -> dict[str, Obj]:
        """Return the virtual machines that are the tested cluster's nodes, by name."""
        listing = await self.in_parent.api.list(VIRTUAL_MACHINES, self.namespace)
        machines = {vm["metadata"]["name"]: vm for vm in listing.items}
        return {
            name: vm
            for name, vm in machines.items()
            if self.own_machines is None or name in self.own_machines
        }

    async def must_have(self, names: Sequence[str]) -> dict[str, Obj]:
        """Return the virtual machines; FaultImpossible if any of these is missing."""
        machines = await self.machines()
        for name in names:
            if name not in machines:
                known = ", ".join(machines) or "none"
                raise FaultImpossible(
                    f"there is no virtual machine {name!r} in the namespace "
                    f"{self.namespace!r}; there are {known}"
                )
        return machines

    async def must_run(self, names: Sequence[str]) -> dict[str, Obj]:
        """Return the virtual machines; FaultImpossible if any of these is missing or off."""
        machines = await self.must_have(names)
        for name in names:
            if phase_of(machines[name]) == STOPPED:
                raise FaultImpossible(
                    f"the virtual machine {name} is off: name one that runs, or end first "
                    "what has stopped it"
                )
        return machines


async def replace_object(actor: Actor, resource: Resource, obj: Obj) -> Obj:
    """Create the object; delete one of the same name first."""
    await delete_same_name(actor, resource, obj)
    return await actor.api.create(resource, obj)


async def delete_same_name(actor: Actor, resource: Resource, obj: Obj) -> None:
    """Delete an object of the same name, and record that there was one."""
    metadata = obj["metadata"]
    try:
        await actor.api.get(resource, metadata["name"], metadata["namespace"])
    except NotFound:
        pass
    else:
        actor.note("name-taken", resource=resource.qualified, name=metadata["name"])
        await delete_and_wait(actor, resource, metadata["name"], metadata["namespace"])


async def delete_and_wait(actor: Actor, resource: Resource, name: str, namespace: str) -> None:
    """Delete the object with its dependents, and wait until it is gone."""
    try:
        await actor.api.delete(resource, name, namespace, propagation="Background")
    except NotFound:
        return
    await wait_for(
        actor.api,
        actor.clock,
        resource,
        name,
        namespace,
        condition=lambda obj: obj is None,
        timeout=DELETE_TIMEOUT,
    )


NAMESPACE = "default"
IMAGE = "krpsh/iperf3:0.1.0"
LONGEST_JOB = 86400.0  # longest time of a Job, in seconds, if the needed time is unknown
DEADLINE, TTL = (
    10,
    12,
)  # seconds beyond the script's own: the script can end, and its log can be read


def job(name: str, node: str, script: str, seconds: float, labels: Mapping[str, str]) -> Obj:
    """Return a Job that runs a script for this many seconds on a node, privileged and in the
    host's network.
    """
    seconds = math.ceil(seconds)
    container = {
        "name": "net-tools",
        "image": IMAGE,
        "securityContext": {"privileged": True},
        "command": ["/bin/sh", "-c"],
        "args": [script],
    }
    pod = {
        "restartPolicy": "Never",
        "hostNetwork": True,
        "nodeName": node,
        "terminationGracePeriodSeconds": 1,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": dict(labels)},
        "spec": {
            "ttlSecondsAfterFinished": seconds + TTL,
            "backoffLimit": 0,
            "activeDeadlineSeconds": seconds + DEADLINE,
            "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
        },
    }


# callers choose it
async def wait_for_job(actor: Actor, name: str, timeout: float) -> bool:  # noqa: ASYNC109
    """Wait for the Job's end, at most `timeout` seconds; return True if it succeeded."""
    try:
        end = await wait_for(
            actor.api, actor.clock, JOBS, name, NAMESPACE, condition=_end_of, timeout=timeout
        )
    except TimeoutError:
        return False
    return end == "Complete"


def _end_of(found: Obj | None) -> str:
    if found is None:
        return "Gone"
    return next((end for end in ("Complete", "Failed") if is_true(found, end)), "")


async def log_of(actor: Actor, name: str) -> str:
    """Return the log of the Job's pods; empty if it cannot be read."""
    pods = (await actor.api.list(PODS, NAMESPACE, labels=f"job-name={name}")).items
    try:
        return "".join([await actor.api.log(pod["metadata"]["name"], NAMESPACE) for pod in pods])
    except (ApiError, OSError) as error:
        actor.note("no-log", job=name, error=repr(error))
        return ""


async def delete_jobs(actor: Actor, incident: str, ending: str = "") -> None:
    """Delete the remaining Jobs of an incident, or only those with this ending of the name."""
    for job in (await actor.api.list(JOBS, NAMESPACE, labels=f"{INCIDENT}={incident}")).items:
        if job["metadata"]["name"].endswith(ending):
            await delete_and_wait(actor, JOBS, job["metadata"]["name"], NAMESPACE)


# prefix of every rule's comment; the name of the Job that added the rule follows
MARK = "kscen/"
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_DROPPED = re.compile(r"^dropped (\d+) packets$", re.MULTILINE)
_SWEPT = re.compile(r"^swept (\d+) rules$", re.MULTILINE)
_PUSHED = re.compile(
    r"^\[ *\d+\] +[\d.]+-[\d.]+ +sec +([\d.]+) ([KMGT]?)Bytes +(?!.*\b(?:sender|receiver)\s*$)",
    re.MULTILINE,
)


def add_rule(job: str, source: str, loss: float) -> str:
    """Return a script that drops this share of the packets from this address. The rule's comment
    names the Job that added it.
    """
    return f"""\
set -e
iptables -w -A {_rule(job, source, loss)}
echo "iptables rule added"
"""


def remove_rule(job: str, source: str, loss: float, after: float) -> str:
    """Return a script that waits, prints how many packets the rule has dropped, and deletes it.

    The rule is deleted by its text, since rule numbers may change meanwhile.
    """
    return f"""\
set -e
sleep {_number(after)}
COMMENT="/* {MARK}{job} */"
while iptables -w -n -L INPUT | grep -q -F "$COMMENT"; do
  PACKETS=$(iptables -w -n -v -x -L INPUT | grep -F "$COMMENT" | head -n 1 | awk '{{print $1}}')
  echo "dropped $PACKETS packets"
  iptables -w -D {_rule(job, source, loss)}
done
"""


def sweep_rules(mark: str = MARK) -> str:
    """Return a script that deletes all rules of chaos, or those with this comment. It fails if any
    of them remains.

    Rules with characters that are special to a shell are not deleted.
    """
    # iptables quotes a comment, unless it has only letters, digits, - and _
    mark = re.sub(r"[\"\\']", r"\\\g<0>", mark)
    spellings = [f'--comment "{mark}']
    if mark != MARK:
        spellings = [f'--comment "{mark}"', f"--comment {mark} "]
    grep_own = " ".join(["grep -F", *(f"-e {shlex.quote(spelling)}" for spelling in spellings)])
    return f"""\
set -e
RULES=$(iptables -w -S INPUT)
COUNT=$(printf '%s\\n' "$RULES" | {grep_own} -c || true)
printf '%s\\n' "$RULES" | {grep_own} | grep -v '[$`\\;&|<>()]' | sed 's/^-A/iptables -w -D/' | sh -e
RULES=$(iptables -w -S INPUT)
if printf '%s\\n' "$RULES" | {grep_own}; then
  echo "there are rules that stay"
  exit 1
fi
echo "swept $COUNT rules"
"""


def load_link(target: str, seconds: float) -> str:
    """Return a script that sends traffic to this address, and receives the other end's traffic."""
    return f"""\
set -e
timeout {_number(seconds)} sh -c '
  iperf3 -s -D || true
  while true; do
    iperf3 -c {target} -t 60 -i 1 --forceflush || true
    sleep 0.5
  done
' || true
"""


def dropped_packets(log: str) -> int | None:
    """Return the number of dropped packets; None if the log has none."""
    counts = [int(count) for count in _DROPPED.findall(log)]
    return sum(counts) if counts else None


def swept_rules(log: str) -> int | None:
    """Return the number of swept rules; None if the sweep has not finished."""
    found = _SWEPT.search(log)
    return int(found[1]) if found else None


def pushed_bytes(log: str) -> int | None:
    """Return the bytes that iperf3 has sent; None if it has printed none."""
    amounts = _PUSHED.findall(log)
    return sum(int(float(amount) * UNITS[unit]) for amount, unit in amounts) if amounts else None


def _rule(job: str, source: str, loss: float) -> str:
    return (
        f"INPUT -s {source} -m statistic --mode random --probability {_number(loss)} -m "
        f'comment --comment "{MARK}{job}" -j DROP'
    )


def _number(value: float) -> str:
    """Return the number without an exponent, in the precision of the kernel."""
    return f"{value:.10f}".rstrip("0").rstrip(".")


SWEEP_TIMEOUT = 60.0  # seconds that a sweep may take, the image's pull included


async def sweep_node(
    actor: Actor, name: str, node: str, mark: str, labels: Mapping[str, str]
) -> int:
    """Delete rules with comments of this prefix on a node, and return their number."""
    await create_sweep(actor, name, node, mark, labels)
    return await finish_sweep(actor, name, node, mark)


async def create_sweep(
    actor: Actor, name: str, node: str, mark: str, labels: Mapping[str, str]
) -> None:
    """Create the Job that deletes rules. A node that is down runs it when it is up again."""
    await replace_object(actor, JOBS, job(name, node, sweep_rules(mark), LONGEST_JOB, labels))


async def finish_sweep(actor: Actor, name: str, node: str, mark: str) -> int:
    """Wait for the Job that deletes rules, delete it, and return the number of deleted rules."""
    done = await wait_for_job(actor, name, SWEEP_TIMEOUT)
    found = swept_rules(await log_of(actor, name))
    if not done or found is None:
        raise TimeoutError(
            f"it is unknown whether {node} still has the iptables rules with {mark!r} "
            "in their comment"
        )
    await delete_and_wait(actor, JOBS, name, NAMESPACE)
    if found:
        actor.note("rules-swept", node=node, mark=mark, rules=found)
    return found
