"""Guarantees of one run or played scenario: their declarations, and the record that they read.

`context.Run` and `ScenarioRunner` own one watch each per run and scenario. Which state violates a
guarantee is decided in `judge.guarantees`, never here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from pytest_kscen.clock.time_limit import TimeLimit, TimeLimitExceeded
from pytest_kscen.journal import ChangeRecord
from pytest_kscen.judge.guarantees.checks import (
    DeclaredGuarantees,
    Guarantees,
    PredicateFailed,
)
from pytest_kscen.judge.guarantees.declaration import check_guarantees

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kscen.clusters.cluster import ChangeFeed, Cluster
    from pytest_kscen.journal import Journal
    from pytest_kscen.judge.guarantees.declaration import Guarantee
    from pytest_kscen.objects.resources import Obj

PREDICATE_LIMIT = 1.0  # seconds of real time for one call of a user's function


class FunctionPredicate:
    """Function of a test, which gets a copy of each object and a limited time."""

    def __init__(self, function: Callable[[Obj], object], limit: TimeLimit) -> None:
        self._function = function
        self._limit = limit

    def __call__(self, obj: Obj) -> bool:
        metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
        text = orjson.dumps({**obj, "metadata": metadata})
        copy = orjson.loads(text)
        try:
            value = self._limit.call(self._function, copy)
        except TimeLimitExceeded:
            raise PredicateFailed(
                f"the predicate did not return within {PREDICATE_LIMIT:g} s"
            ) from None
        except Exception as error:
            raise PredicateFailed(f"the predicate raised {error!r}") from error
        if copy != orjson.loads(text):
            raise PredicateFailed("the predicate changed its object: read it only")
        return bool(value)


class GuaranteeWatch:
    """Record of a cluster's changes from `start` to `stop`, with the checks that follow it."""

    def __init__(self, cluster: Cluster, journal: Journal) -> None:
        self.changes = ChangeRecord(lambda: journal.now, lambda: journal.entries)
        self.checks = DeclaredGuarantees()
        self._cluster = cluster
        self._journal = journal
        self._declared: list[Guarantee] = []
        self._feed: ChangeFeed | None = None
        self._limit = TimeLimit(PREDICATE_LIMIT)

    def start(self, guarantees: Iterable[Guarantee]) -> None:
        """Begin the record, and declare the plan's guarantees; in the loop's thread."""
        self._journal.follow(self.checks.learn)
        self.changes.follow(self.checks.observe)
        self._feed = self._cluster.follow_changes(self.changes.note)
        self.declare(*guarantees)

    def declare(self, *guarantees: Guarantee) -> None:
        """Declare guarantees in the journal, which the checks follow; in the loop's thread.

        Raises TypeError or ValueError before any is declared, if one is wrong.
        """
        check_guarantees((*self._declared, *guarantees))
        for guarantee in guarantees:
            self._declared.append(guarantee)
            if callable(guarantee.predicate):
                predicate = FunctionPredicate(guarantee.predicate, self._limit)
                self.checks.functions[guarantee.name] = predicate
            if self._feed:
                self._feed.include(guarantee.kind.partition("/")[0])
            self._journal.write("run", "guarantee-declared", guarantee.as_json())

    def stop(self) -> None:
        """End the record, in any thread; a second call does nothing."""
        if self._feed:
            self._feed.stop()
            self._feed = None
            self.changes.finish()

    @property
    def without_record(self) -> str:
        """Reason for which the record cannot be judged, or an empty text."""
        lost = self.changes.lost
        return f"harness: the record of changes is incomplete: {lost}" if lost else ""

    def results(self) -> Guarantees:
        """Return the results so far."""
        return Guarantees(result for result, _ in self.checks.judge(self.without_record))
