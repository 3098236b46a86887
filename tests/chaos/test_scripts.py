import pytest

from pytest_kscen.chaos.clients import (
    add_rule,
    dropped_packets,
    load_link,
    pushed_bytes,
    remove_rule,
    swept_rules,
)

IPERF3 = """\
Connecting to host 10.99.0.2, port 5201
[  5] local 10.99.0.1 port 46760 connected to 10.99.0.2 port 5201
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  5]   0.00-5.00   sec  1.50 GBytes  2.58 Gbits/sec  7226    721 KBytes       
[  5]   5.00-8.00   sec   512 MBytes  1.43 Gbits/sec    0   1.08 MBytes       
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-8.00   sec  2.00 GBytes  2.15 Gbits/sec  7226             sender
[  5]   0.00-8.00   sec  0.00 Bytes  0.00 bits/sec                  receiver
iperf3: interrupt - the client has terminated
"""  # noqa: W291  # as iperf3 prints it


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (0.01, "0.01"),
        (0.001, "0.001"),
        (0.1, "0.1"),
        (1, "1"),
        (1.0, "1"),
        (2**-31, "0.0000000005"),
        (0.0, "0"),
    ],
)
def test_small_loss_keeps_its_value(loss, text):
    assert f" --probability {text} -m " in add_rule("j", "10.0.0.1", loss)
    assert f" --probability {text} -m " in remove_rule("j", "10.0.0.1", loss, 30)


@pytest.mark.parametrize(
    ("seconds", "text"), [(30, "30"), (30.0, "30"), (12.5, "12.5"), (100000.0, "100000")]
)
def test_durations_are_accepted_by_sleep_and_timeout(seconds, text):
    assert f"\nsleep {text}\n" in remove_rule("j", "10.0.0.1", 0.01, seconds)
    assert f"\ntimeout {text} sh -c '\n" in load_link("10.0.0.1", seconds)


@pytest.mark.parametrize(
    ("log", "packets"),
    [
        ("dropped 123 packets\n", 123),
        ("dropped 3 packets\ndropped 4 packets\n", 7),
        ("dropped 0 packets\n", 0),
        ("dropped packets\n", None),
        ("sh: iptables: not found\n", None),
        ("", None),
    ],
)
def test_dropped_packets_are_counted(log, packets):
    assert dropped_packets(log) == packets


@pytest.mark.parametrize(
    ("log", "rules"), [("swept 2 rules\n", 2), ("swept 0 rules\n", 0), ("swept rules", None)]
)
def test_swept_rules_are_counted(log, rules):
    assert swept_rules(log) == rules


def test_transferred_bytes_are_counted_once():
    assert pushed_bytes(IPERF3) == 2 * 2**30
    assert pushed_bytes(IPERF3 + IPERF3) == 4 * 2**30
    assert pushed_bytes(IPERF3[: IPERF3.index("- - -")]) == 2 * 2**30


def test_no_bytes_are_counted_without_a_listener():
    assert pushed_bytes("iperf3: error - unable to connect to server: Connection refused\n") is None
