"""The one door to randomness: named streams derived from one seed, so that a new actor shifts
nobody else's draws.
"""

from __future__ import annotations

import hashlib
import random
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

SUFFIX_ALPHABET = (
    "bcdfghjklmnpqrstvwxz2456789"  # Kubernetes' own for generated names: no vowels, no words
)


class Stream:
    """One actor's chance. Draws rest on random() and getrandbits() alone, which no Python version
    changes.

    Its generators are made when something is drawn of them, which most actors never do. A salt has
    a generator of its own for names; they take as much of the seed's with a salt as without, so
    that what is drawn after them is the same."""

    def __init__(self, seed: int, salt: str = "") -> None:
        self._seed, self._salt = seed, salt

    @cached_property
    def _random(self) -> random.Random:
        return random.Random(self._seed)

    @cached_property
    def _names(self) -> random.Random:
        return random.Random(f"{self._seed}/{self._salt}")

    def restart(self) -> None:
        """From here on, draw what was drawn at first."""
        for made in ("_random", "_names"):
            self.__dict__.pop(made, None)

    def below(self, bound: int) -> int:
        """A whole number from 0 to bound - 1."""
        return int(self._random.random() * bound)

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self._random.random()

    def whole(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + self.below(high - low + 1)

    def choice(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        return self.sample(items, len(items))

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """This many of the items, in random order."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in range(min(count, len(left)))]

    def suffix(self, length: int = 5) -> str:
        plain = _suffix(self._random, length)
        return _suffix(self._names, length) if self._salt else plain

    def uid(self) -> str:
        """A version 4 UUID."""
        return self.uid_and_key()[0]

    def uid_and_key(self) -> tuple[str, str]:
        """The same, and what it is without a salt, which no salt changes."""
        key = _uid(self._random)
        return _uid(self._names) if self._salt else key, key


class Chance:
    """All the randomness of one run.

    A salt changes what things are called (`suffix`, `uid`), and nothing else: in a cluster that
    outlives the run, another of the same seed must not come upon its names. So no stream may go by
    such a name; one that would goes by its key."""

    def __init__(self, seed: int | str, salt: str = "") -> None:
        self.seed = str(seed)
        self._salt = salt
        self._streams: dict[str, Stream] = {}

    def stream(self, name: str) -> Stream:
        """The stream of this name; whoever asks again goes on where the last one stopped."""
        if name not in self._streams:
            self._streams[name] = self.passing_stream(name)
        return self._streams[name]

    def passing_stream(self, name: str) -> Stream:
        """A stream that nobody is going to ask for again: it is not kept, however many there
        are.
        """
        return Stream(
            int.from_bytes(hashlib.sha256(f"{self.seed}/{name}".encode()).digest()), self._salt
        )


def _suffix(generator: random.Random, length: int) -> str:
    return "".join(
        SUFFIX_ALPHABET[int(generator.random() * len(SUFFIX_ALPHABET))] for _ in range(length)
    )


def _uid(generator: random.Random) -> str:
    bits = generator.getrandbits(128) & ~(0xF << 76) & ~(0x3 << 62) | (0x4 << 76) | (0x2 << 62)
    digits = f"{bits:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def draw_seed() -> str:
    """A seed or a salt that nobody chose, for whoever asks for one."""
    return str(random.SystemRandom().getrandbits(48))


def seed_from(text: str) -> str:
    """The seed that belongs to a name, so that a suite repeats by itself."""
    return str(int.from_bytes(hashlib.sha256(text.encode()).digest()[:6]))
