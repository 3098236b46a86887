"""Whatever people do to a volume, when it is quiet again the volume is whole, and has exactly
the replicas that it should.
"""

from __future__ import annotations

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from storage_yard import RV, RVA, RVR, Yard

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


def act(yard, what, *particulars):  # noqa: C901, PLR0912  # a table of deeds
    """Refusals are answers, too."""
    try:
        match what, particulars:
            case "wait", (seconds,):
                yard.advance(seconds)
            case "volume", (storage_class,):
                yard.volume(storage_class=storage_class)
            case "attach", (where,):
                yard.attach(where)
            case "detach", (where,):
                yard.detach(where)
            case "delete", (which,):
                yard.delete(RVR, f"v-{which}")
            case "access", (which, where):
                yard.replica(which, nodeName=where)
            case "tie", (which,):
                yard.replica(which, type_="TieBreaker")
            case "disk", (which,):
                yard.replica(which, type_="Diskful")
            case "kill", (app, which):
                pods = yard.pods(app)
                if pods:
                    yard.kill(pods[which % len(pods)])
            case "dark", (where,):
                yard.site.machines.power_off(where)
                yard.advance(60)
            case "cut", (where,):
                yard.site.machines.power_off(where)
                yard.advance(5)
                yard.site.machines.power_on(where)
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
        yard = Yard(cluster, "conditions")
        yard.volume(storage_class=storage_class)
        for action in actions:
            act(yard, *action)
        for attachment in yard.call(yard.api.list(RVA)).items:
            act(yard, "detach", attachment["spec"]["nodeName"])
        yard.advance(240)
        assert yard.is_whole(), (
            yard.of_volume(),
            [(one["spec"], yard.said(RVR, one["metadata"]["name"])) for one in yard.replicas()],
        )
        if not any(what == "disk" for what, *_ in actions):  # those stay
            assert yard.kinds() == CLASSES[storage_class]
        assert len(yard.replicas()) == len(yard.nodes()) == len(set(yard.nodes()))
        assert yard.call(yard.api.list(RVA)).items == []
        yard.delete(RV, "v")
        yard.advance(30)
        assert yard.get(RV, "v") is None
        assert yard.replicas() == []
        assert all(yard.system.drbd.status(name, "v") is None for name in yard.node_names)
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
    """Attached or not, machines out or not, and although somebody who was there first has to
    make room.
    """
    storage_class, nodes = fits
    cluster = EmbeddedCluster("tight", nodes=nodes)
    try:
        yard = Yard(cluster, generation)
        for action in (*before, ("volume", storage_class), *actions):
            if not str(action[-1]).startswith("node-") or action[-1] in yard.node_names:
                act(yard, *action)
        for machine in yard.node_names:
            yard.site.machines.power_on(machine)
        yard.advance(300)
        assert yard.is_whole(), (
            yard.of_volume(),
            [(one["spec"], yard.said(RVR, one["metadata"]["name"])) for one in yard.replicas()],
        )
    finally:
        cluster.close()
