"""Node statuses that the API has refused: note them in the workflow's status and retry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.workflow.engine.statuses import words_of
from pytest_kscen.workflow.engine.trees import ROOT
from pytest_kscen.workflow.tables.machine import Event, Happening

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytest_kscen.clock import Clock
    from pytest_kscen.workflow.engine.reporting import Voice
    from pytest_kscen.workflow.engine.repository import Repository
    from pytest_kscen.workflow.engine.trees import Node, Tree
    from pytest_kscen.workflow.engine.triggers import OperableTrigger
    from pytest_kscen.workflow.tables.machine import Key

    Write = Callable[[Tree, Node], Awaitable[None]]

WRITTEN_WITHIN = 300.0
"""Seconds until a workflow has failed of which statuses are refused all the while."""
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 60.0
"""Seconds until they are offered again; each pause is twice as long as the one before."""
AT_ONCE = 1.0
"""Seconds in which a refusal costs the workflow's other events no time."""


class Unwritten(Exception):
    """A status was refused, and is taken care of."""


@dataclass(slots=True)
class Debt:
    """One node's."""

    node: Node
    why: str
    then: list[Event] = field(default_factory=list)
    """What is told when it is written."""

    @property
    def whose(self) -> str:
        return self.node.name or "the workflow"


@dataclass(slots=True)
class Book:
    """One workflow's."""

    since: float
    next: float
    """When they are offered again."""
    pause: float = FIRST_PAUSE
    debts: dict[str, Debt] = field(default_factory=dict)
    slow: dict[bool, str] = field(default_factory=dict)
    """What was answered so late that nobody waits for another answer; of nodes, and of the
    workflow's own status.
    """
    is_deaf: bool = False
    """Annotations are refused as well."""
    is_given_up: bool = False


class Debts:
    """One engine's."""

    def __init__(
        self,
        repository: Repository,
        trigger: OperableTrigger,
        voice: Voice,
        clock: Clock,
        write: Write,
    ) -> None:
        self._repository = repository
        self._trigger = trigger
        self._voice = voice
        self._clock = clock
        self._write = write
        self._books: dict[Key, Book] = {}

    async def save(self, tree: Tree, node: Node) -> None:
        """Unwritten if that is refused, or would be."""
        book = self._books.get(tree.key)
        why = book.slow.get(node.name == ROOT) if book else None
        if why is None:
            why = await self._refusal(tree, node)
        if why is not None:
            await self._owe(tree, node, why)
            raise Unwritten(why)
        if book and not book.debts:
            await self._close(tree)

    def owes(self, tree: Tree, node: Node) -> bool:
        book = self._books.get(tree.key)
        return book is not None and node.name in book.debts

    def hold(self, tree: Tree, node: Node, event: Event) -> None:
        """Until the node is written, or nobody waits for that any longer."""
        book = self._books[tree.key]
        if book.is_given_up:
            self._go_on_unwritten(book.debts[node.name], event)
        else:
            book.debts[node.name].then.append(event)

    def take_up(self, tree: Tree, node: Node) -> None:
        """What the engine that was before this one could only note."""
        self._book(tree).debts[node.name] = Debt(node, "the engine before this one could not do it")

    def forget(self, tree: Tree) -> None:
        self._books.pop(tree.key, None)

    async def settle(self, tree: Tree) -> None:
        """Offer all of it again, when it is time."""
        book = self._books.get(tree.key)
        if book is None or book.next > self._clock.now():
            return
        book.slow.clear()
        was_refused = False
        for debt in list(book.debts.values()):
            if debt.node.name == ROOT or False not in book.slow:
                why = await self._refusal(tree, debt.node)
                debt.why = why or debt.why
                was_refused = was_refused or why is not None
        if self._books.get(tree.key) is not book:  # it was deleted meanwhile
            return
        if not book.debts:
            await self._close(tree)
            return
        book.pause = min(2 * book.pause, LONGEST_PAUSE) if was_refused else FIRST_PAUSE
        if not book.is_given_up and self._clock.now() >= book.since + WRITTEN_WITHIN:
            self._give_up(tree, book)
        self._again(tree, book)
        await self._tell(tree, book)

    # --- how it comes to that ---

    async def _refusal(self, tree: Tree, node: Node) -> str | None:
        """Why it is refused; None if it is written."""
        began = self._clock.now()
        try:
            await self._write(tree, node)
        except (ApiError, OSError) as error:
            if self._clock.now() - began > AT_ONCE:
                self._book(tree).slow[node.name == ROOT] = words_of(error)
            return words_of(error)
        if (book := self._books.get(tree.key)) and (debt := book.debts.pop(node.name, None)):
            for event in debt.then:
                self._trigger.notify(event)
            await self._note(tree, book, node, is_paid=True)
        return None

    async def _owe(self, tree: Tree, node: Node, why: str) -> None:
        book = self._book(tree)
        if node.name not in book.debts:
            self._voice.unwritten(tree, node, why)
            book.debts[node.name] = Debt(node, why)
        await self._note(tree, book, node)
        await self._tell(tree, book)

    async def _note(self, tree: Tree, book: Book, node: Node, *, is_paid: bool = False) -> None:
        """In an annotation, for an engine that is started anew; who refuses that too is asked
        for it no more.
        """
        if book.is_deaf or (is_paid and not node.noted):
            return
        try:
            await self._repository.note(tree, node, is_paid=is_paid)
        except NotFound:
            return
        except (ApiError, OSError):
            book.is_deaf = True

    async def _tell(self, tree: Tree, book: Book) -> None:
        """The workflow's own message has the first of them."""
        debt = next(iter(book.debts.values()))
        hindrance = f"the status of {debt.whose} cannot be written: {debt.why}"
        if hindrance != tree.root.waits_for:
            tree.root.waits_for = hindrance
            self._voice.hindered(tree, hindrance)
            await self._show(tree)

    async def _close(self, tree: Tree) -> None:
        """All is written, but what the workflow says."""
        del self._books[tree.key]
        tree.root.waits_for = ""
        self._voice.hindered(tree, "")
        await self._show(tree)

    async def _show(self, tree: Tree) -> None:
        book = self._books.get(tree.key)
        if book and (ROOT in book.debts or True in book.slow):
            return
        if (why := await self._refusal(tree, tree.root)) is not None:
            await self._owe(tree, tree.root, why)

    def _book(self, tree: Tree) -> Book:
        if tree.key not in self._books:
            now = self._clock.now()
            self._books[tree.key] = Book(now, now)
            self._again(tree, self._books[tree.key])
        return self._books[tree.key]

    def _again(self, tree: Tree, book: Book) -> None:
        now, latest = self._clock.now(), book.since + WRITTEN_WITHIN
        book.next = (
            now + book.pause if book.is_given_up else min(now + book.pause, max(latest, now))
        )
        self._trigger.notify_delay(Event(tree.key, ROOT, Happening.UNWRITTEN), book.next - now)

    def _give_up(self, tree: Tree, book: Book) -> None:
        """The workflow has failed; what waits to be written waits no more."""
        book.is_given_up = True
        debt = next(iter(book.debts.values()))
        self._trigger.notify(Event(tree.key, ROOT, Happening.FAULT, _too_late(debt)))
        for each in book.debts.values():
            held, each.then = each.then, []
            for event in held:
                self._go_on_unwritten(each, event)

    def _go_on_unwritten(self, debt: Debt, event: Event) -> None:
        """To its end: nothing new comes of it."""
        tree = self._repository.trees.get(event.workflow)
        if tree and (node := tree.node(event.node)):
            node.is_called_off = True
        self._trigger.notify(Event(event.workflow, event.node, Happening.FAULT, _too_late(debt)))


def _too_late(debt: Debt) -> str:
    return (
        f"the status of {debt.whose} could not be written within {WRITTEN_WITHIN:g} s: {debt.why}"
    )
