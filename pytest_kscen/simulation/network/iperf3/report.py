"""What an iperf3 client prints."""

from __future__ import annotations

KILO, UNITS = 1024.0, ("", "K", "M", "G", "T")
RATE_KILO = 1000.0
HEAD = "[ ID] Interval           Transfer     Bitrate         Retr{}\n"
LINE = "- - - - - - - - - - - - - - - - - - - - - - - - -\n"
WINDOW = " 1.12 MBytes"
TINY, SMALL = 9.995, 99.95  # below these, two digits or one stand after the point


def greeting(here: str, there: str, port: int, client_port: int) -> str:
    head = HEAD.format("  Cwnd")
    return (
        f"Connecting to host {there}, port {port}\n[  5] local {here} port {client_port} connected to {there} port {port}\n{head}"
    )


def interval(start: float, end: float, pushed: float, resent: int) -> str:
    return f"{_span(start, end, pushed)}{resent:>5}  {WINDOW}       \n"


def summary(seconds: float, pushed: float, resent: int) -> str:
    span = _span(0, seconds, pushed)
    return f"{LINE}{HEAD.format('')}{span}{resent:>5}             sender\n{span}                  receiver\n\niperf Done.\n"


def _span(start: float, end: float, pushed: float) -> str:
    rate = pushed * 8 / (end - start) if end > start else 0.0
    return f"[  5] {start:>6.2f}-{end:<6.2f} sec  {_amount(pushed, KILO)}Bytes  {_amount(rate, RATE_KILO)}bits/sec"


def _amount(value: float, kilo: float) -> str:
    power = 0
    while value >= kilo and power < len(UNITS) - 1:
        value, power = value / kilo, power + 1
    digits = 2 if value < TINY else 1 if value < SMALL else 0
    return f"{value:>4.{digits}f} {UNITS[power]}"
