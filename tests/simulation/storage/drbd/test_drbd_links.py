import pytest

from pytest_kscen.simulation.network import Passage
from pytest_kscen.simulation.storage.drbd.figures import FIGURES
from pytest_kscen.simulation.storage.drbd.weather import pings_until_lost


def test_two_that_come_up_are_connected_after_two_seconds(cluster):
    cluster.spread("ab")
    assert cluster.state("a", "b") == "Connecting"
    assert cluster.when(lambda: cluster.state("a", "b") == "Connected") == 2
    assert cluster.state("b", "a") == "Connected"


def test_a_cut_shorter_than_noticing_has_not_happened(cluster):
    cluster.form("ab")
    cluster.cut(("a", "b"))
    cluster.advance(7.9)
    assert cluster.state("a", "b") == "Connected"
    cluster.mend(("a", "b"))
    cluster.advance(100)
    assert cluster.state("a", "b") == "Connected"
    assert cluster.told == []
    assert cluster.drbd.pending == 0


def test_a_cut_is_noticed_and_mended_late(cluster):
    cluster.form("ab")
    cluster.cut(("a", "b"))
    assert cluster.when(lambda: cluster.state("a", "b") == "Connecting") == 8
    assert cluster.drbd.pending == 0
    cluster.advance(1000)
    cluster.mend(("a", "b"))
    assert cluster.when(lambda: cluster.state("a", "b") == "Connected") == 50
    assert cluster.drbd.pending == 0


def test_a_mend_that_does_not_last_begins_the_wait_anew(cluster):
    cluster.form("ab")
    cluster.cut(("a", "b"))
    cluster.advance(10)
    cluster.mend(("a", "b"))
    cluster.advance(49)
    cluster.cut(("a", "b"))
    cluster.advance(1)
    cluster.mend(("a", "b"))
    assert cluster.when(lambda: cluster.state("a", "b") == "Connected") == 50


def test_one_open_direction_is_enough(cluster):
    cluster.form("ab")
    cluster.passages["a", "b"] = Passage(blocked=True)
    cluster.network.changed()
    cluster.advance(100)
    assert cluster.told == []


def test_a_peer_that_goes_says_so(cluster):
    cluster.form("ab")
    cluster.do("down", "b", "v")
    assert cluster.state("a", "b") == "Connecting"
    assert cluster.status("b") is None
    cluster.rest()
    assert cluster.told == [(60, "a", "v"), (60, "b", "v")]


def test_a_goodbye_is_not_heard_through_a_cut(cluster):
    cluster.form("ab")
    cluster.cut(("a", "b"))
    cluster.advance(1)
    cluster.do("down", "b", "v")
    assert cluster.when(lambda: cluster.state("a", "b") == "Connecting") == 7


def test_a_power_cut_is_noticed_late_and_a_boot_connects_soon(cluster):
    cluster.form("ab")
    cluster.machines.power_off("b")
    assert cluster.status("b") is None
    assert cluster.link("a", "b").peer_disk == "UpToDate"
    assert cluster.when(lambda: cluster.state("a", "b") == "Connecting") == 8
    cluster.machines.power_on("b")
    cluster.advance(100)
    assert cluster.status("b") is None
    cluster.spread("ab")
    assert cluster.when(lambda: cluster.state("a", "b") == "Connected") == 2


def test_a_boot_before_anybody_noticed_ends_the_old_connection(cluster):
    cluster.form("ab")
    cluster.machines.power_off("b")
    cluster.advance(1)
    cluster.machines.power_on("b")
    cluster.spread("ab")
    assert cluster.state("a", "b") == "Connecting"
    assert cluster.when(lambda: cluster.state("a", "b") == "Connected") == 2


def test_loss_of_everything_is_a_cut(cluster):
    cluster.form("ab")
    cluster.spoil("a", "b", Passage(loss=1.0))
    assert cluster.when(lambda: cluster.state("a", "b") == "Connecting") == 8
    cluster.advance(1000)
    assert cluster.state("a", "b") == "Connecting"


def test_loss_drops_a_link_now_and_then_and_it_comes_back_soon(cluster):
    cluster.form("ab")
    cluster.spoil("a", "b", Passage(loss=0.3))
    assert cluster.when(lambda: cluster.state("a", "b") == "Connecting") % 10 == 0
    assert cluster.when(lambda: cluster.state("a", "b") == "Connected") == 2
    cluster.mend(("a", "b"))
    cluster.rest()
    assert cluster.drbd.pending == 0


@pytest.mark.parametrize("loss", [0.01, 0.1, 0.5])
def test_pings_until_two_in_a_row_are_lost(loss):
    both = 1 - (1 - loss) ** 2
    draws = [(number + 0.5) / 1000 for number in range(1000)]
    mean = sum(pings_until_lost(both, draw) for draw in draws) / 1000
    assert mean == pytest.approx(1 / both**2, rel=0.01)


def test_over_a_long_time_links_drop_as_often_as_stated(build):
    cluster = build("ab")
    for number in range(30):
        cluster.form("ab", f"v{number}")
    cluster.spoil("a", "b", Passage(loss=0.1))
    drops = []
    cluster.drbd.on_change(lambda node, volume: drops.append(volume) if cluster.state("a", "b", volume) == "Connecting" else None)
    cluster.advance(10_000)
    per_ping = len(drops) / 2 / 30 / 1000
    assert per_ping == pytest.approx((1 - 0.9**2) ** 2, rel=0.1)


def test_figures_of_the_wild():
    assert (FIGURES.noticing, FIGURES.redialling, FIGURES.dialling) == ((6, 16), (40, 60), (1, 3))


def test_each_link_has_its_own_chance(build):
    def first(others):
        cluster = build("abcd", figures=FIGURES)
        cluster.spread(others, "other")
        cluster.spread("ab")
        return cluster.when(lambda: cluster.state("a", "b") == "Connected")

    alone = first("ab")
    assert first("abcd") == pytest.approx(alone, abs=1e-5)
    assert first("cd") == pytest.approx(alone, abs=1e-5)


def test_strangers_stand_alone_until_one_is_wiped(cluster):
    cluster.spread("a", quorum=0)
    cluster.spread("b", quorum=0)
    cluster.do("initialize", "a", "v")
    cluster.do("initialize", "b", "v")
    cluster.spread("ab")
    cluster.advance(100)
    assert cluster.state("a", "b") == cluster.state("b", "a") == "StandAlone"
    assert cluster.drbd.pending == 0
    cluster.do("down", "b", "v", wipe=True)
    cluster.spread("ab")
    cluster.advance(100)
    assert cluster.is_whole("ab")
