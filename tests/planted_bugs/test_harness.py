"""Each bug of the harness changes what its part does, and leaves nothing behind."""

import asyncio
import contextlib
from types import SimpleNamespace

import pytest

from planted_bugs import harness
from planted_bugs.catalogue import planted
from pytest_kscen.chaos import clients, network_blocks, pod_deletions, troubles
from pytest_kscen.chaos.incidents import FaultAnswers
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.kube.api import Listing
from pytest_kscen.kube.informer import Informer
from pytest_kscen.megatest import actors, health, subject
from pytest_kscen.objects.errors import Expired, NotFound
from pytest_kscen.objects.resources import CONFIG_MAPS
from pytest_kscen.objects.storage import Observed
from pytest_kscen.run import cleanup, lifecycle


class Noting:
    """Actor that records what it notes, and what it asks the API for."""

    def __init__(self, items=()):
        self.notes, self.requests, self.items = [], [], items
        self.api, self.chance, self.labels = self, SimpleNamespace(choice=lambda many: many[0]), {}
        self.clock = SimpleNamespace(now=lambda: 0.0)

    def note(self, what, **data):
        self.notes.append((what, data))

    def log(self, *_, **__):
        pass

    @contextlib.asynccontextmanager
    async def doing(self, *_, **__):
        yield

    async def list(self, *_, **__):
        return Listing(list(self.items), "1", "")

    async def get(self, resource, name, *_, **__):
        self.requests.append(("get", name))
        raise NotFound(name)

    async def delete(self, resource, name, *_, **__):
        self.requests.append(("delete", name))
        raise NotFound(name)


def run(coroutine):
    runner = VirtualRunner()
    try:
        return runner.call(coroutine)
    finally:
        runner.close()


def changes(first, second):
    actor = Noting()
    watch = SimpleNamespace(replicas=lambda _: [], attachments=lambda _: [])
    last = {}
    observed = {"IOReady": Observed(first), "Quorum": Observed(second)}
    health._compare(SimpleNamespace(name="v", watch=watch), actor, observed, last)
    return [data["condition"] for what, data in actor.notes if what == "condition-changed"]


def same_links():
    old, new = [
        {"status": {"drbd": {"status": {"connections": [{"connectionState": state}]}}}}
        for state in ("Connected", "Connecting")
    ]
    return troubles.has_same_links(new, old)


def node_readiness():
    ready = {"type": "Ready", "status": "False"}
    return troubles.readiness({"metadata": {"name": "n"}, "status": {"conditions": [ready]}})


def owner_of_a_trouble():
    weak = troubles.Reach((troubles.NODE,), ("a",), power=troubles.ExplanatoryPower.DEGRADES)
    strong = troubles.Reach((troubles.NODE,), ("a",))
    suspects = [troubles.SuspectedIncident(reach, 0.0) for reach in (weak, strong)]
    trouble = troubles.ObservedState((troubles.NODE, "a"), False, "NotReady", ("a",))
    owner, _ = troubles.attribute_trouble(trouble, suspects, 10.0)
    return suspects.index(owner)


class Relisted:
    """API whose first list has two objects, and its second one of them; watches expire."""

    def __init__(self):
        self.lists, self.watched = 0, []

    async def list(self, *_, **__):
        self.lists += 1
        names = "ab" if self.lists == 1 else "a"
        version = str(self.lists)
        objs = [
            {"metadata": {"name": name, "namespace": "", "uid": name, "resourceVersion": "1"}}
            for name in names
        ]
        return Listing(objs, version, "")

    def watch(self, *_, resource_version, **__):
        self.watched.append(resource_version)
        raise Expired("too old")


def follow():
    runner, api = VirtualRunner(), Relisted()
    informer = Informer(api, runner.clock, CONFIG_MAPS)
    runner.start(informer.run(), "informer")
    runner.advance(1)
    found = sorted(ref.name for ref in informer.objects), api.watched[0]
    runner.close()
    return found


def requests_to_undo_a_block():
    actor = Noting()

    async def look_for(*_):
        pass

    owner = SimpleNamespace(in_parent=actor, namespace="vms")
    incident = SimpleNamespace(clients=owner, id="x", look_for=look_for)
    run(network_blocks.NetworkCut("everything", ("a",), ("b",)).heal(incident))
    return actor.requests


def selected_label():
    policy = network_blocks.deny_policy("p", "vms", ["a"], ["b"], labels={})
    return policy["spec"]["endpointSelector"]["matchExpressions"][0]["key"]


def probability():
    words = clients.add_rule("job", "10.0.0.1", 0.01).split()
    return words[words.index("--probability") + 1]


def requests_to_destroy_a_pod():
    actor = Noting()
    pod = {"metadata": {"name": "p", "uid": "1"}, "spec": {}}
    fault = pod_deletions.PodDeletion("app=agent", 1, chosen=(pod,))
    incident = SimpleNamespace(
        clients=SimpleNamespace(nested=actor),
        answers=FaultAnswers(),
        note=actor.note,
        reaches=lambda reach: None,
    )
    run(fault.inject(incident))
    return actor.requests


def requests_to_destroy_a_replica():
    actor = Noting()
    replica = {"metadata": {"name": "v-0", "uid": "1"}, "spec": {"type": "Access"}}
    pauses = []

    async def pause(*_):
        if pauses:
            raise asyncio.CancelledError
        pauses.append(1)

    rv = SimpleNamespace(
        name="v",
        actor=lambda _: actor,
        pause=pause,
        watch=SimpleNamespace(replicas=lambda _: [replica]),
        health=SimpleNamespace(has_layout=False),
    )

    async def destroy():
        with contextlib.suppress(asyncio.CancelledError):
            await actors.destroy_replicas(rv, (1, 1), 300.0)

    run(destroy())
    return actor.requests


def requests_to_delete_attachments():
    attachment = {"metadata": {"name": "rva"}, "spec": {"replicatedVolumeName": "v-salt"}}
    actor = Noting([attachment])
    run(subject.delete_attachments(SimpleNamespace(name="v-salt", key="v"), actor))
    return actor.requests


def detached():
    found = []

    async def until(_, condition, **__):
        found.append(condition())

    watch = SimpleNamespace(attachments=lambda _: [], until=until)
    volume = {"status": {"actuallyAttachedTo": ["a"]}}
    rv = SimpleNamespace(name="v", volume=volume, watch=watch)
    run(subject._wait_until_detached(rv, "a"))
    return found


def recovery_window():
    waited = []

    async def wait_for(*_, timeout, **__):  # noqa: ASYNC109
        waited.append(timeout)

    actor = Noting()
    actor.with_retry_time = lambda _: actor
    before, cleanup.wait_for = cleanup.wait_for, wait_for
    try:
        run(cleanup._recovers(SimpleNamespace(), actor, "v", 0.0))
    finally:
        cleanup.wait_for = before
    return waited


def seconds_of_healing():
    runner = VirtualRunner()
    ended = []

    async def heal():
        fault = asyncio.get_running_loop().create_task(runner.clock.sleep(5))
        state = SimpleNamespace(chaos_tasks=[])
        run_ = SimpleNamespace(
            _chaos=[fault],
            state=state,
            companions=(),
            record=lambda _: ended.append(runner.clock.now()),
        )
        began = runner.clock.now()
        await lifecycle.RunLifecycle.heal(run_)
        await fault
        return ended[0] - began

    try:
        return runner.call(heal())
    finally:
        runner.close()


CASES = {
    # bug: (what is done, what follows, what follows with the bug)
    "checker-counts-nothing": (lambda: changes("False", "True"), ["IOReady"], []),
    "checker-follows-one-condition": (lambda: changes("True", "False"), ["Quorum"], []),
    "observer-loses-link-changes": (same_links, False, True),
    "observer-ignores-nodes": (node_readiness, {"type": "Ready", "status": "False"}, None),
    "effect-credited-to-weakest": (owner_of_a_trouble, 1, 0),
    "relist-keeps-deleted": (follow, (["a"], "1"), (["a", "b"], "1")),
    "watch-reopened-at-the-end": (follow, (["a"], "1"), (["a"], "")),
    "block-not-undone": (requests_to_undo_a_block, [("delete", "chaos-net-x")], []),
    "block-selects-no-machine": (
        selected_label,
        "vm.kubevirt.internal.virtualization.deckhouse.io/name",
        "vm.kubevirt.io/name",
    ),
    "loss-taken-for-percent": (probability, "0.01", "0.0001"),
    "pods-not-deleted": (requests_to_destroy_a_pod, [("delete", "p")], [("get", "p")]),
    "replica-destroyer-finds-nothing": (requests_to_destroy_a_replica, [("delete", "v-0")], []),
    "attachments-not-deleted": (requests_to_delete_attachments, [("delete", "rva")], []),
    "detach-not-verified": (detached, [False], [True]),
    "recovery-window-too-short": (recovery_window, [300.0], [3.0]),
    "liveness-before-healing": (seconds_of_healing, 5, 0),
}


@pytest.mark.parametrize("bug", harness.BUGS, ids=lambda bug: bug.name)
def test_bug_changes_what_the_harness_does(bug):
    act, sound, broken = CASES[bug.name]
    assert act() == sound
    with planted(bug.name):
        assert act() == broken
    assert act() == sound
