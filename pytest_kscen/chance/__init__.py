"""Randomness: named streams derived from one seed, so that a new actor shifts no other's draws.

Every other package draws from here; the linter bans the raw calls. Imports nothing else.
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
    """Random draws of one actor, based on random() and getrandbits() only, which no Python version
    changes.

    Generators are created at the first draw, as most actors never draw. With a salt, names come
    from a generator of their own; as much is drawn from the seed's as without one, so later draws
    agree.
    """

    def __init__(self, seed: int, salt: str = "") -> None:
        self._seed, self._salt = seed, salt

    @cached_property
    def _random(self) -> random.Random:
        return random.Random(self._seed)

    @cached_property
    def _names(self) -> random.Random:
        return random.Random(f"{self._seed}/{self._salt}")

    def restart(self) -> None:
        """Start over: the next draws repeat the first ones."""
        for made in ("_random", "_names"):
            self.__dict__.pop(made, None)

    def below(self, bound: int) -> int:
        """Return an integer from 0 to bound - 1."""
        return int(self._random.random() * bound)

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self._random.random()

    def whole(self, low: int, high: int) -> int:
        """Return an integer from low to high, both included."""
        return low + self.below(high - low + 1)

    def choice(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        return self.sample(items, len(items))

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Return so many of the items, in random order."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in range(min(count, len(left)))]

    def suffix(self, length: int = 5) -> str:
        plain = _suffix(self._random, length)
        return _suffix(self._names, length) if self._salt else plain

    def uid(self) -> str:
        """Return a version 4 UUID."""
        return self.uid_and_key()[0]

    def uid_and_key(self) -> tuple[str, str]:
        """Return a UUID, and the UUID without a salt, which is the same for every salt."""
        key = _uid(self._random)
        return _uid(self._names) if self._salt else key, key


class Chance:
    """Randomness of one run: the streams by name, all derived from the run's seed.

    A salt changes names (`suffix`, `uid`) and nothing else: in a cluster that outlives the run,
    another run of the same seed must not meet its objects. So no stream may be named after such a
    name; use its key instead.
    """

    def __init__(self, seed: int | str, salt: str = "") -> None:
        self.seed = str(seed)
        self._salt = salt
        self._streams: dict[str, Stream] = {}

    def stream(self, name: str) -> Stream:
        """Return the stream of this name; a second call continues where the first one stopped."""
        if name not in self._streams:
            self._streams[name] = self.temporary_stream(name)
        return self._streams[name]

    def temporary_stream(self, name: str) -> Stream:
        """Return a stream that is not kept, for names that are used once."""
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
    """Return a random seed or salt."""
    return str(random.SystemRandom().getrandbits(48))


def seed_from(text: str) -> str:
    """Return the seed derived from a test's name, so that a suite repeats itself."""
    return str(int.from_bytes(hashlib.sha256(text.encode()).digest()[:6]))
