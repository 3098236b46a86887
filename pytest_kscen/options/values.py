"""How the text of a setting becomes a value. What makes no sense is a ValueError that says what to give instead."""

from __future__ import annotations

import pathlib

TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def duration(text: str) -> float:
    from pytest_kscen.objects.durations import seconds_of_text

    seconds = seconds_of_text(text)
    if not 0 < seconds < float("inf"):
        raise ValueError(f"{text!r} is no length of time: give more than zero, as in 90s or 1h30m")
    return seconds


def count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) == 0:
        raise ValueError(f"{text!r} is no number of things: give a whole number, 1 or more")
    return int(text)


def group_size(text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise ValueError(f"{text!r} is no size of a group: give a whole number, or 0 for half of the machines")
    return int(text)


def share(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        hint = f" ({text} % is {number / 100:g})" if 1 < number <= 100 else ""  # noqa: PLR2004  # per cent
        raise ValueError(f"{text!r} is no share of packets: give a number from 0 to 1, as in 0.01 for 1 %{hint}")
    return number


def names(text: str) -> tuple[str, ...]:
    found = tuple(name.strip() for name in text.split(","))
    if not all(found):
        raise ValueError(f"{text!r} is no list of names: separate them with commas, as in availability,none")
    return found


def context(text: str) -> str:
    if not text.strip():
        raise ValueError(f"{text!r} is no context: name one, or leave it out for the kubeconfig's current one")
    return text


def namespace(text: str) -> str:
    from pytest_kscen.objects.names import dns1123_label

    found = text.strip()
    if dns1123_label(found):
        raise ValueError(f"{text!r} is no namespace: give 63 of a-z, 0-9 and - at most, with no - at either end, as in my-vms")
    return found


def quantity(text: str) -> str:
    from pytest_kscen.objects import quantities

    try:
        if quantities.parse(text).nanos > 0:
            return text
    except ValueError:
        pass
    raise ValueError(f"{text!r} is no size: give a quantity of more than zero, as in 100Mi or 1Gi")


def switch(text: str) -> bool:
    if text.lower() not in TRUE + FALSE:
        raise ValueError(f"{text!r} is neither true nor false: give one of the two")
    return text.lower() in TRUE


def existing_file(text: str) -> pathlib.Path:
    path = pathlib.Path(text).expanduser()
    if not path.is_file():
        raise ValueError(f"there is no file {text!r}")
    return path


def folder(text: str) -> pathlib.Path:
    if not text.strip():
        raise ValueError(f"{text!r} is no folder: name one in which runs can be kept")
    path = pathlib.Path(text).expanduser()
    if path.exists() and not path.is_dir():
        raise ValueError(f"{text!r} is not a folder")
    return path
