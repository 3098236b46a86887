"""Volumes recover with exactly the required replicas after random failures."""

from __future__ import annotations

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from storage_cluster import RV, RVA, RVR, StorageCluster

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.objects.errors import ApiError

GENERATIONS = ["conditions", "ready"]
TWO_DISKS_AT_ONCE = [
    *[
        ("disk", 7),
        ("attach", "node-2"),
        ("access", 0, "node-2"),
        ("wait", 0.3),
        ("disk", 6),
        ("access", 1, "node-4"),
    ],
    *[("attach", "node-6"), ("attach", "node-5"), ("detach", "node-4"), ("wait", 15)],
]
CLASSES = {"none": "1D", "availability": "2D1T", "consistency-and-availability": "3D"}
number = st.integers(0, 7)
node = st.integers(1, 6).map(lambda one: f"node-{one}")
ACTIONS = st.one_of(
    st.tuples(st.just("wait"), st.sampled_from([0.05, 0.3, 2, 15])),
    st.tuples(st.just("attach"), node),
    st.tuples(st.just("detach"), node),
    st.tuples(st.just("delete"), number),
    st.tuples(st.just("access"), number, node),
    st.tuples(st.just("tie"), number),
    st.tuples(st.just("disk"), number),
    st.tuples(st.just("kill"), st.sampled_from(["agent", "controller"]), number),
    st.tuples(st.just("cut"), node),
)


def act(storage_cluster, what, *particulars):  # noqa: C901, PLR0912  # a table of deeds
    """Execute one random action; the API may refuse it."""
    try:
        match what, particulars:
            case "wait", (seconds,):
                storage_cluster.advance(seconds)
            case "volume", (storage_class,):
                storage_cluster.volume(storage_class=storage_class)
            case "attach", (where,):
                storage_cluster.attach(where)
            case "detach", (where,):
                storage_cluster.detach(where)
            case "delete", (which,):
                storage_cluster.delete(RVR, f"v-{which}")
            case "access", (which, where):
                storage_cluster.replica(which, nodeName=where)
            case "tie", (which,):
                storage_cluster.replica(which, type_="TieBreaker")
            case "disk", (which,):
                storage_cluster.replica(which, type_="Diskful")
            case "kill", (app, which):
                pods = storage_cluster.pods(app)
                if pods:
                    storage_cluster.kill(pods[which % len(pods)])
            case "dark", (where,):
                storage_cluster.site.machines.power_off(where)
                storage_cluster.advance(60)
            case "cut", (where,):
                storage_cluster.site.machines.power_off(where)
                storage_cluster.advance(5)
                storage_cluster.site.machines.power_on(where)
    except ApiError:
        return


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.sampled_from(sorted(CLASSES)), st.lists(ACTIONS, max_size=12))
@example("availability", TWO_DISKS_AT_ONCE)
def test_storage_is_healthy_after_random_failures(storage_class, actions):
    cluster = EmbeddedCluster("whatever")
    try:
        storage_cluster = StorageCluster(cluster, "conditions")
        storage_cluster.volume(storage_class=storage_class)
        for action in actions:
            act(storage_cluster, *action)
        for attachment in storage_cluster.call(storage_cluster.api.list(RVA)).items:
            act(storage_cluster, "detach", attachment["spec"]["nodeName"])
        storage_cluster.advance(240)
        assert storage_cluster.is_whole(), (
            storage_cluster.of_volume(),
            [
                (one["spec"], storage_cluster.conditions_of(RVR, one["metadata"]["name"]))
                for one in storage_cluster.replicas()
            ],
        )
        if not any(what == "disk" for what, *_ in actions):  # those stay
            assert storage_cluster.kinds() == CLASSES[storage_class]
        assert (
            len(storage_cluster.replicas())
            == len(storage_cluster.nodes())
            == len(set(storage_cluster.nodes()))
        )
        assert storage_cluster.call(storage_cluster.api.list(RVA)).items == []
        storage_cluster.delete(RV, "v")
        storage_cluster.advance(30)
        assert storage_cluster.get(RV, "v") is None
        assert storage_cluster.replicas() == []
        assert all(
            storage_cluster.system.drbd.status(name, "v") is None
            for name in storage_cluster.node_names
        )
    finally:
        cluster.close()


FITS = [
    ("none", 2),
    ("availability", 3),
    ("consistency-and-availability", 3),
    ("consistency-and-availability", 4),
]


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    st.sampled_from(GENERATIONS),
    st.sampled_from(FITS),
    st.lists(st.tuples(st.just("dark"), node), max_size=2),
    st.lists(ACTIONS | st.tuples(st.just("dark"), node), max_size=10),
)
@example(
    "ready",
    FITS[2],
    [("dark", "node-2")],
    [("wait", 0.3), ("dark", "node-2"), ("dark", "node-1"), ("delete", 2)],
)
@example(
    "conditions",
    FITS[-1],
    [("dark", "node-3"), ("dark", "node-4")],
    [("attach", "node-3"), ("wait", 15)],
)
def test_storage_with_little_room_is_healthy_after_five_minutes(generation, fits, before, actions):
    """With and without attachments and stopped machines, although an earlier replica must make
    room.
    """
    storage_class, nodes = fits
    cluster = EmbeddedCluster("tight", nodes=nodes)
    try:
        storage_cluster = StorageCluster(cluster, generation)
        for action in (*before, ("volume", storage_class), *actions):
            if not str(action[-1]).startswith("node-") or action[-1] in storage_cluster.node_names:
                act(storage_cluster, *action)
        for machine in storage_cluster.node_names:
            storage_cluster.site.machines.power_on(machine)
        storage_cluster.advance(300)
        assert storage_cluster.is_whole(), (
            storage_cluster.of_volume(),
            [
                (one["spec"], storage_cluster.conditions_of(RVR, one["metadata"]["name"]))
                for one in storage_cluster.replicas()
            ],
        )
    finally:
        cluster.close()
