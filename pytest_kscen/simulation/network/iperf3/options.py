"""The words of an `iperf3` call."""

from __future__ import annotations

from dataclasses import dataclass

PORT = 5201
LETTERS = {
    "--server": "-s", "--daemon": "-D", "--client": "-c", "--time": "-t", "--interval": "-i", "--port": "-p", "--one-off": "-1",
}  # fmt: skip
IGNORED = ("--forceflush", "-4", "--version4")


@dataclass(slots=True)
class Options:
    serves: bool = False
    in_background: bool = False
    host: str = ""
    seconds: float = 10.0
    interval: float = 1.0
    port: int = PORT


def options_of(words: list[str]) -> Options:
    """A ValueError says what is not understood."""
    found, left = Options(), list(words)
    while left:
        word = left.pop(0)
        word = LETTERS.get(word, word)
        if word == "-s":
            found.serves = True
        elif word == "-D":
            found.in_background = True
        elif word in {"-c", "-t", "-i", "-p"} and left:
            _set(found, word, left.pop(0))
        elif word not in IGNORED:
            raise ValueError(f"{word} is not understood here (-s, -D, -c, -t, -i, -p are)")
    if found.serves == bool(found.host):
        raise ValueError("parameter error - must either be a client (-c) or server (-s)")
    return found


def _set(options: Options, word: str, value: str) -> None:
    if word == "-c":
        options.host = value
        return
    number = float(value)
    if word == "-t":
        options.seconds = number
    elif word == "-i":
        options.interval = number
    else:
        options.port = int(value)
