import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kscen.chance import Chance
from pytest_kscen.embedded.kubelet.machines import Machines
from pytest_kscen.embedded.kubelet.network import NO_IMPAIRMENT, Flow, Impairment, Network

FLOW = Flow("a", "b", "TCP", 7000)
SHARES = st.integers(0, 100).map(lambda share: share / 100)
PASSAGES = st.builds(Impairment, st.booleans(), SHARES, SHARES, SHARES)


@pytest.fixture
def machines():
    machines = Machines(Chance("network").stream("machines"))
    for name in "abc":
        machines.add(name)
    return machines


@pytest.fixture
def network(machines):
    return Network(machines)


def test_unfiltered_traffic_passes(network):
    assert network.impairment(FLOW) is NO_IMPAIRMENT


@pytest.mark.parametrize("name", "ab")
def test_powered_off_machine_is_unreachable_in_both_directions(network, machines, name):
    machines.power_off(name)
    assert network.impairment(FLOW).blocked
    assert network.impairment(Flow("b", "a")).blocked
    machines.power_on(name)
    assert network.impairment(FLOW) is NO_IMPAIRMENT


def test_nonexistent_machine_is_unreachable(network):
    assert network.impairment(Flow("a", "z")).blocked


def test_filters_apply_in_sequence(network):
    network.add_filter(
        lambda flow: Impairment(loss=0.5, delay=1) if flow.target == "b" else NO_IMPAIRMENT
    )
    network.add_filter(lambda _: Impairment(loss=0.5, delay=2, load=0.75))
    assert network.impairment(FLOW) == Impairment(loss=0.75, delay=3, load=0.75)
    assert network.impairment(Flow("a", "c")) == Impairment(loss=0.5, delay=2, load=0.75)


def test_filter_can_be_excluded(network):
    def mine(_):
        return Impairment(blocked=True)

    network.add_filter(mine)
    network.add_filter(lambda _: Impairment(delay=1))
    assert network.impairment(FLOW).blocked
    assert network.impairment(FLOW, excluding=mine) == Impairment(delay=1)


def test_changes_are_notified(network, machines):
    told = []
    network.on_change(lambda: told.append(network.impairment(FLOW).blocked))
    machines.power_off("a")
    machines.power_on("a")
    network.add_filter(lambda _: Impairment(blocked=True))
    network.changed()
    assert told == [True, False, True, True]


@given(PASSAGES, PASSAGES)
def test_filter_order_does_not_matter(one, other):
    both, turned = one.combined_with(other), other.combined_with(one)
    assert (both.blocked, both.load) == (turned.blocked, turned.load)
    assert (both.loss, both.delay) == pytest.approx((turned.loss, turned.delay))


@given(st.lists(PASSAGES, max_size=6))
def test_combined_share_is_between_zero_and_one(passages):
    impairment = NO_IMPAIRMENT
    for one in passages:
        impairment = impairment.combined_with(one)
    assert 0 <= impairment.loss <= 1
    assert 0 <= impairment.load <= 1
    assert impairment.blocked is any(one.blocked for one in passages)
