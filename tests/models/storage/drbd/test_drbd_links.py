import dataclasses

import pytest

from pytest_kscen.embedded.kubelet.network import Impairment
from pytest_kscen.models.storage.drbd.connections import pings_until_lost
from pytest_kscen.models.storage.drbd.timers import PARAMETERS


def test_two_started_peers_connect_after_two_seconds(kernels):
    kernels.spread("ab")
    assert kernels.state("a", "b") == "Connecting"
    assert kernels.when(lambda: kernels.state("a", "b") == "Connected") == 2
    assert kernels.state("b", "a") == "Connected"


def test_cut_shorter_than_detection_has_no_effect(kernels):
    kernels.form("ab")
    kernels.cut(("a", "b"))
    kernels.advance(7.9)
    assert kernels.state("a", "b") == "Connected"
    kernels.repair(("a", "b"))
    kernels.advance(100)
    assert kernels.state("a", "b") == "Connected"
    assert kernels.reported == []
    assert kernels.drbd.pending == 0


def test_cut_is_detected_and_reconnected_late(kernels):
    kernels.form("ab")
    kernels.cut(("a", "b"))
    assert kernels.when(lambda: kernels.state("a", "b") == "Connecting") == 8
    assert kernels.drbd.pending == 0
    kernels.advance(1000)
    kernels.repair(("a", "b"))
    assert kernels.when(lambda: kernels.state("a", "b") == "Connected") == 50
    assert kernels.drbd.pending == 0


def test_interrupted_reconnection_restarts_the_wait(kernels):
    kernels.form("ab")
    kernels.cut(("a", "b"))
    kernels.advance(10)
    kernels.repair(("a", "b"))
    kernels.advance(49)
    kernels.cut(("a", "b"))
    kernels.advance(1)
    kernels.repair(("a", "b"))
    assert kernels.when(lambda: kernels.state("a", "b") == "Connected") == 50


def test_link_uses_the_current_port_of_an_end(kernels):
    kernels.form("ab")
    kernels.network.add_filter(lambda flow: Impairment(blocked=flow.port in (7000, 7009)))
    kernels.network.changed()
    kernels.advance(100)
    assert kernels.reported == []
    config = kernels.drbd._volumes["v"].replicas["b"].config
    kernels.do("up", "b", "v", dataclasses.replace(config, port=7009))
    assert kernels.state("a", "b") == "Connecting"


def test_one_open_direction_is_enough(kernels):
    kernels.form("ab")
    kernels.passages["a", "b"] = Impairment(blocked=True)
    kernels.network.changed()
    kernels.advance(100)
    assert kernels.reported == []


def test_stopping_peer_announces_its_disconnection(kernels):
    kernels.form("ab")
    kernels.do("down", "b", "v")
    assert kernels.state("a", "b") == "Connecting"
    assert kernels.status("b") is None
    kernels.rest()
    assert kernels.reported == [(60, "a", "v"), (60, "b", "v")]


def test_disconnection_is_not_received_through_a_cut(kernels):
    kernels.form("ab")
    kernels.cut(("a", "b"))
    kernels.advance(1)
    kernels.do("down", "b", "v")
    assert kernels.when(lambda: kernels.state("a", "b") == "Connecting") == 7


def test_power_loss_is_detected_late_and_a_boot_connects_soon(kernels):
    kernels.form("ab")
    kernels.machines.power_off("b")
    assert kernels.status("b") is None
    assert kernels.link("a", "b").peer_disk == "UpToDate"
    assert kernels.when(lambda: kernels.state("a", "b") == "Connecting") == 8
    kernels.machines.power_on("b")
    kernels.advance(100)
    assert kernels.status("b") is None
    kernels.spread("ab")
    assert kernels.when(lambda: kernels.state("a", "b") == "Connected") == 2


def test_boot_before_detection_ends_the_old_connection(kernels):
    kernels.form("ab")
    kernels.machines.power_off("b")
    kernels.advance(1)
    kernels.machines.power_on("b")
    kernels.spread("ab")
    assert kernels.state("a", "b") == "Connecting"
    assert kernels.when(lambda: kernels.state("a", "b") == "Connected") == 2


def test_total_loss_is_a_cut(kernels):
    kernels.form("ab")
    kernels.impair("a", "b", Impairment(loss=1.0))
    assert kernels.when(lambda: kernels.state("a", "b") == "Connecting") == 8
    kernels.advance(1000)
    assert kernels.state("a", "b") == "Connecting"


def test_packet_loss_drops_a_link_sometimes_and_it_reconnects_soon(kernels):
    kernels.form("ab")
    kernels.impair("a", "b", Impairment(loss=0.3))
    assert kernels.when(lambda: kernels.state("a", "b") == "Connecting") % 10 == 0
    assert kernels.when(lambda: kernels.state("a", "b") == "Connected") == 2
    kernels.repair(("a", "b"))
    kernels.rest()
    assert kernels.drbd.pending == 0


@pytest.mark.parametrize("loss", [0.01, 0.1, 0.5])
def test_pings_continue_until_two_in_a_row_are_lost(loss):
    both = 1 - (1 - loss) ** 2
    draws = [(number + 0.5) / 1000 for number in range(1000)]
    mean = sum(pings_until_lost(both, draw) for draw in draws) / 1000
    assert mean == pytest.approx(1 / both**2, rel=0.01)


def test_links_drop_at_the_documented_rate(build):
    kernels = build("ab")
    for number in range(30):
        kernels.form("ab", f"v{number}")
    kernels.impair("a", "b", Impairment(loss=0.1))
    drops = []
    kernels.drbd.on_change(
        lambda node, volume: (
            drops.append(volume) if kernels.state("a", "b", volume) == "Connecting" else None
        )
    )
    kernels.advance(10_000)
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
        kernels = build("abcd", parameters=PARAMETERS)
        kernels.spread(others, "other")
        kernels.spread("ab")
        return kernels.when(lambda: kernels.state("a", "b") == "Connected")

    alone = first("ab")
    assert first("abcd") == pytest.approx(alone, abs=1e-5)
    assert first("cd") == pytest.approx(alone, abs=1e-5)


def test_unrelated_data_keeps_peers_standalone_until_one_is_wiped(kernels):
    kernels.spread("a", quorum=0)
    kernels.spread("b", quorum=0)
    kernels.do("initialize", "a", "v")
    kernels.do("initialize", "b", "v")
    kernels.spread("ab")
    kernels.advance(100)
    assert kernels.state("a", "b") == kernels.state("b", "a") == "StandAlone"
    assert kernels.drbd.pending == 0
    kernels.do("down", "b", "v", wipe=True)
    kernels.spread("ab")
    kernels.advance(100)
    assert kernels.is_whole("ab")


def test_same_seed_gives_the_same_story(build):
    def story(seed):
        kernels = build("abc", parameters=PARAMETERS, seed=seed)
        began = kernels.now
        kernels.form("abc", quorum=2)
        kernels.do("primary", "a", "v")
        kernels.impair("a", "b", Impairment(loss=0.4))
        kernels.advance(300)
        kernels.machines.power_off("c")
        kernels.advance(300)
        return [
            (pytest.approx(moment - began, abs=1e-5), node) for moment, node, _ in kernels.reported
        ]

    once = [(moment.expected, node) for moment, node in story("one")]
    assert len(once) > 10
    assert story("one") == once
    assert story("two") != once
