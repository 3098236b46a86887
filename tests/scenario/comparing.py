"""Compare the pods of a scenario on two clusters, following equally good node choices.

Three things are the clock's on a real control plane, and nothing else is excused. Whose back-off
ends first, of pods that were turned down and are woken together: the second tries each order that
is possible. Which of two bindings that are under way at once arrives first: pods that are tried
again are taken in one breath, and bound beside each other. And whether one who is woken by the
first of several deletions is bound before the last of them: pods are sent away beside the
scheduler.
"""

from collections import Counter, deque
from dataclasses import dataclass, field

BOUND, SENT_AWAY = "bound", "sent away"
LONGEST = 10
"""Seconds of a back-off."""
MOST_TRIES = 60


def order(played):
    """Return the pods in the order of their binding or rejection, each with its node."""
    found, places, scenario = [], {}, played.live
    for event in played.timeline:
        if what := event.pod_scheduled:
            places[what.pod.name] = what.bound_to
            found.append((BOUND, nickname(scenario, what.pod.name), what.bound_to))
        elif (
            what := event.pod_unscheduled
        ):  # which an API server may tell by a picture of before it was bound
            found.append((SENT_AWAY, nickname(scenario, what.pod.name), places[what.pod.name]))
    return found


def nickname(scenario, pod):
    """Return the pod's name, or its owner's name if the name has a random suffix."""
    makings = [
        each["createOperation"]["object"]
        for each in scenario["spec"]["operations"]
        if "createOperation" in each
    ]
    names = [each["metadata"]["name"] for each in makings]
    return (
        pod
        if pod in names
        else next((f"{each}-*" for each in names if pod.startswith(f"{each}-")), pod)
    )


class Follower:
    """Tie breaker that follows the other cluster's node, if it is among the best, and its order
    after back-offs.
    """

    def __init__(self, scenario, theirs, choices=()):
        self.ties = []
        """Pod, the nodes that were equally good, and the one that was taken elsewhere; nothing
        if it was none of them.
        """
        self.asked = []
        """Each time that there was a choice: whoever could be next, the first of them by our
        clock.
        """
        self.beside = set()
        """Pairs of pods, of which one waited to be tried again when the other was taken for
        that.
        """
        self._scenario = scenario
        self._places = {(name, node) for what, name, node in theirs if what == BOUND}
        self._choices = choices

    def node(self, pod, equals):
        name = nickname(self._scenario, pod.name)
        theirs = next((node for node in equals if (name, node) in self._places), "")
        self.ties.append((pod.name, equals, theirs))
        return theirs or equals[0]

    def next_one(self, waiting):
        """Return the pod of this course's choice, or the first by our clock."""
        first = waiting[0]
        others = [
            each
            for each in waiting[1:]
            if all(may_precede(each, other) for other in waiting if other is not each)
        ]
        if others:
            number = len(self.asked)
            self.asked.append([each.pod.name for each in (first, *others)])
            first = (first, *others)[self._choices[number] if number < len(self._choices) else 0]
        self.beside |= {(first.pod.name, each.pod.name) for each in waiting if each is not first}
        return first

    @property
    def reported(self):
        """Return the choices that differ from our clock."""
        chosen = zip(self.asked, self._choices, strict=False)
        return [f"{names[choice]} before {names[0]}" for names, choice in chosen if choice]


def may_precede(one, other):
    """Whether there are clocks by which one is taken before the other, which were turned down in
    the order of their turns.

    It is so if both back off, or neither does. Else the one may have come to the end of its
    back-off, which the other has not, if it was turned down before, or backs off for less; and
    never otherwise."""
    in_order = (-one.pod.priority, one.sequence) < (-other.pod.priority, other.sequence)
    return in_order or one.sequence < other.sequence or pause(one) < pause(other)


def pause(queued):
    return min(2 ** (queued.unschedulable - 1), LONGEST)


def courses(play):
    """Each course that is possible, ours first, then those that differ from it in few choices: its
    follower, and what it came to.

    `play` plays once, by these choices.
    """
    left = deque([()])
    for _ in range(MOST_TRIES):
        if not left:
            return
        choices = left.popleft()
        follower, *outcome = play(choices)
        yield follower, *outcome
        for number in range(len(choices), len(follower.asked)):
            before = (*choices, *[0] * (number - len(choices)))
            left += [(*before, choice) for choice in range(1, len(follower.asked[number]))]


TOGETHER, MEANWHILE = (
    "bindings that were under way together",
    "a binding while others were still being sent away",
)


def in_one_breath(ours, beside):
    """Split our order into parts whose inner order depends on the clock."""
    parts = []
    for event in ours:
        if parts and _is_at_once(parts[-1], event, beside):
            parts[-1].append(event)
        else:
            parts.append([event])
    return parts


def _is_at_once(part, event, beside):
    """Return whether two results may be concurrent: rejected from one node, or bound after a shared
    wait.
    """
    last = part[-1]
    if event[0] == SENT_AWAY:
        return last[0] == SENT_AWAY and last[2] == event[2]
    if last[0] == BOUND:
        return (last[1], event[1]) in beside
    return len(part) > 1 and any(event[1] in pair for pair in beside)


def clock_told(ours, theirs, beside):
    """Explain a different order by the clock: "" if equal, None if the clock does not explain it."""
    rest, reported = list(theirs), set()
    for part in in_one_breath(ours, beside):
        there, rest = rest[: len(part)], rest[len(part) :]
        if (
            sorted(there) != sorted(part)
            or _sent_away(there) != _sent_away(part)
            or there[0][0] != part[0][0]
        ):
            return None
        if there != part:
            reported.add(MEANWHILE if part[0][0] == SENT_AWAY else TOGETHER)
    return None if rest else sorted(reported)


def _sent_away(events):
    return [each for each in events if each[0] == SENT_AWAY]


@dataclass
class Tally:
    """Counts of compared scenarios by result."""

    decided: int = 0
    """Pods bound or sent away where one node was the best."""
    ties: int = 0
    kinds: Counter = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    by_clock: list[str] = field(default_factory=list)
    """Scenarios that go the same way, if what is the clock's goes as it went there."""

    def add(self, name, theirs, play, message=""):
        """`theirs` is their order and phase, and `play` gives a follower, our order and our
        phase; the message is their last.
        """
        first = together = None
        for course in courses(play):
            follower, *ours = course
            first = first or course
            strays = [pod for pod, _, where in follower.ties if not where]
            if ours == list(theirs) and not strays:
                self._count(follower, ours[0])
                if follower.reported:
                    self.by_clock.append(f"{name}: {', '.join(follower.reported)}")
                return
            reported = clock_told(ours[0], theirs[0], follower.beside)
            if not (together or strays) and ours[1] == theirs[1] and reported:
                together = course, [*follower.reported, *reported]
        (follower, ours, phase), reported = together or (first, ())
        self._count(follower, ours)
        if reported:
            self.by_clock.append(f"{name}: {', '.join(reported)}")
            return
        strays = [
            f"{pod}: none of {', '.join(equals)}"
            for pod, equals, where in follower.ties
            if not where
        ]
        self.differences.append(
            "\n  ".join(
                [
                    name,
                    f"ours   {phase} {ours}",
                    f"theirs {theirs[1]} {theirs[0]} {message}",
                    *strays,
                ]
            )
        )

    def _count(self, follower, ours):
        self.kinds.update(what for what, *_ in ours)
        self.ties += len(follower.ties)
        self.decided += len(ours) - len(follower.ties)

    def __add__(self, other):
        return Tally(
            self.decided + other.decided,
            self.ties + other.ties,
            self.kinds + other.kinds,
            self.differences + other.differences,
            self.by_clock + other.by_clock,
        )

    def __str__(self):
        return (
            f"{self.kinds[BOUND]} pods bound and {self.kinds[SENT_AWAY]} sent away: "
            f"{self.decided} times one node was the best, "
            f"{self.ties} times several; {len(self.differences)} scenarios differ, "
            f"{len(self.by_clock)} more in what is the clock's alone"
        )
