import dataclasses

import pytest

from pytest_kscen.embedded.kubelet.network import Impairment
from pytest_kscen.models.storage.drbd.connections import pings_until_lost
from pytest_kscen.models.storage.drbd.timers import PARAMETERS


def test_two_started_peers_connect_after_two_seconds(yard):
    yard.spread("ab")
    assert yard.state("a", "b") == "Connecting"
    assert yard.when(lambda: yard.state("a", "b") == "Connected") == 2
    assert yard.state("b", "a") == "Connected"


def test_cut_shorter_than_detection_has_no_effect(yard):
    yard.form("ab")
    yard.cut(("a", "b"))
    yard.advance(7.9)
    assert yard.state("a", "b") == "Connected"
    yard.mend(("a", "b"))
    yard.advance(100)
    assert yard.state("a", "b") == "Connected"
    assert yard.told == []
    assert yard.drbd.pending == 0


def test_cut_is_detected_and_reconnected_late(yard):
    yard.form("ab")
    yard.cut(("a", "b"))
    assert yard.when(lambda: yard.state("a", "b") == "Connecting") == 8
    assert yard.drbd.pending == 0
    yard.advance(1000)
    yard.mend(("a", "b"))
    assert yard.when(lambda: yard.state("a", "b") == "Connected") == 50
    assert yard.drbd.pending == 0


def test_interrupted_reconnection_restarts_the_wait(yard):
    yard.form("ab")
    yard.cut(("a", "b"))
    yard.advance(10)
    yard.mend(("a", "b"))
    yard.advance(49)
    yard.cut(("a", "b"))
    yard.advance(1)
    yard.mend(("a", "b"))
    assert yard.when(lambda: yard.state("a", "b") == "Connected") == 50


def test_link_uses_the_current_port_of_an_end(yard):
    yard.form("ab")
    yard.network.add_filter(lambda flow: Impairment(blocked=flow.port in (7000, 7009)))
    yard.network.changed()
    yard.advance(100)
    assert yard.told == []
    config = yard.drbd._volumes["v"].replicas["b"].config
    yard.do("up", "b", "v", dataclasses.replace(config, port=7009))
    assert yard.state("a", "b") == "Connecting"


def test_one_open_direction_is_enough(yard):
    yard.form("ab")
    yard.passages["a", "b"] = Impairment(blocked=True)
    yard.network.changed()
    yard.advance(100)
    assert yard.told == []


def test_stopping_peer_announces_its_disconnection(yard):
    yard.form("ab")
    yard.do("down", "b", "v")
    assert yard.state("a", "b") == "Connecting"
    assert yard.status("b") is None
    yard.rest()
    assert yard.told == [(60, "a", "v"), (60, "b", "v")]


def test_disconnection_is_not_received_through_a_cut(yard):
    yard.form("ab")
    yard.cut(("a", "b"))
    yard.advance(1)
    yard.do("down", "b", "v")
    assert yard.when(lambda: yard.state("a", "b") == "Connecting") == 7


def test_power_loss_is_detected_late_and_a_boot_connects_soon(yard):
    yard.form("ab")
    yard.machines.power_off("b")
    assert yard.status("b") is None
    assert yard.link("a", "b").peer_disk == "UpToDate"
    assert yard.when(lambda: yard.state("a", "b") == "Connecting") == 8
    yard.machines.power_on("b")
    yard.advance(100)
    assert yard.status("b") is None
    yard.spread("ab")
    assert yard.when(lambda: yard.state("a", "b") == "Connected") == 2


def test_boot_before_detection_ends_the_old_connection(yard):
    yard.form("ab")
    yard.machines.power_off("b")
    yard.advance(1)
    yard.machines.power_on("b")
    yard.spread("ab")
    assert yard.state("a", "b") == "Connecting"
    assert yard.when(lambda: yard.state("a", "b") == "Connected") == 2


def test_total_loss_is_a_cut(yard):
    yard.form("ab")
    yard.spoil("a", "b", Impairment(loss=1.0))
    assert yard.when(lambda: yard.state("a", "b") == "Connecting") == 8
    yard.advance(1000)
    assert yard.state("a", "b") == "Connecting"


def test_packet_loss_drops_a_link_sometimes_and_it_reconnects_soon(yard):
    yard.form("ab")
    yard.spoil("a", "b", Impairment(loss=0.3))
    assert yard.when(lambda: yard.state("a", "b") == "Connecting") % 10 == 0
    assert yard.when(lambda: yard.state("a", "b") == "Connected") == 2
    yard.mend(("a", "b"))
    yard.rest()
    assert yard.drbd.pending == 0


@pytest.mark.parametrize("loss", [0.01, 0.1, 0.5])
def test_pings_continue_until_two_in_a_row_are_lost(loss):
    both = 1 - (1 - loss) ** 2
    draws = [(number + 0.5) / 1000 for number in range(1000)]
    mean = sum(pings_until_lost(both, draw) for draw in draws) / 1000
    assert mean == pytest.approx(1 / both**2, rel=0.01)


def test_links_drop_at_the_documented_rate(build):
    yard = build("ab")
    for number in range(30):
        yard.form("ab", f"v{number}")
    yard.spoil("a", "b", Impairment(loss=0.1))
    drops = []
    yard.drbd.on_change(
        lambda node, volume: (
            drops.append(volume) if yard.state("a", "b", volume) == "Connecting" else None
        )
    )
    yard.advance(10_000)
    per_ping = len(drops) / 2 / 30 / 1000
    assert per_ping == pytest.approx((1 - 0.9**2) ** 2, rel=0.1)


def test_rates_match_the_measured_figures():
    assert (
        PARAMETERS.silence_timeout,
        PARAMETERS.reconnect_after_block,
        PARAMETERS.connect_time,
    ) == (
        (6, 16),
        (40, 60),
        (1, 3),
    )


def test_each_link_has_its_own_chance(build):
    def first(others):
        yard = build("abcd", parameters=PARAMETERS)
        yard.spread(others, "other")
        yard.spread("ab")
        return yard.when(lambda: yard.state("a", "b") == "Connected")

    alone = first("ab")
    assert first("abcd") == pytest.approx(alone, abs=1e-5)
    assert first("cd") == pytest.approx(alone, abs=1e-5)


def test_unrelated_data_keeps_peers_standalone_until_one_is_wiped(yard):
    yard.spread("a", quorum=0)
    yard.spread("b", quorum=0)
    yard.do("initialize", "a", "v")
    yard.do("initialize", "b", "v")
    yard.spread("ab")
    yard.advance(100)
    assert yard.state("a", "b") == yard.state("b", "a") == "StandAlone"
    assert yard.drbd.pending == 0
    yard.do("down", "b", "v", wipe=True)
    yard.spread("ab")
    yard.advance(100)
    assert yard.is_whole("ab")


def test_same_seed_gives_the_same_story(build):
    def story(seed):
        yard = build("abc", parameters=PARAMETERS, seed=seed)
        began = yard.now
        yard.form("abc", quorum=2)
        yard.do("primary", "a", "v")
        yard.spoil("a", "b", Impairment(loss=0.4))
        yard.advance(300)
        yard.machines.power_off("c")
        yard.advance(300)
        return [(pytest.approx(moment - began, abs=1e-5), node) for moment, node, _ in yard.told]

    once = [(moment.expected, node) for moment, node in story("one")]
    assert len(once) > 10
    assert story("one") == once
    assert story("two") != once
