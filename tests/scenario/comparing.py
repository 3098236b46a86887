"""What becomes of the pods of a scenario on two clusters. Where nodes are equally good, the second goes where the first went."""

from collections import Counter
from dataclasses import dataclass, field

BOUND, SENT_AWAY = "bound", "sent away"


def order(played):
    """The pods in the order in which they were bound or sent away, each with its node."""
    found, places = [], {}
    for event in played.timeline:
        if what := event.pod_scheduled:
            places[what.pod.name] = what.bound_to
            found.append((BOUND, what.pod.name, what.bound_to))
        elif what := event.pod_unscheduled:  # which an API server may tell by a picture of before it was bound
            found.append((SENT_AWAY, what.pod.name, places[what.pod.name]))
    return found


class Follower:
    """A judge of ties: the node must be one of the best here as well."""

    def __init__(self, theirs):
        self.ties = []
        """Pod, the nodes that were equally good, and the one that was taken elsewhere; nothing if it was none of them."""
        self._places = {(name, node) for what, name, node in theirs if what == BOUND}

    def __call__(self, pod, equals):
        theirs = next((node for node in equals if (pod.name, node) in self._places), "")
        self.ties.append((pod.name, equals, theirs))
        return theirs or equals[0]


@dataclass
class Tally:
    """What many comparisons have come to."""

    decided: int = 0
    """Pods bound or sent away where one node was the best."""
    ties: int = 0
    kinds: Counter = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def add(self, name, ours, theirs, ties):
        strays = [f"{pod}: none of {', '.join(equals)}" for pod, equals, where in ties if not where]
        self.kinds.update(what for what, *_ in ours)
        self.ties += len(ties)
        self.decided += len(ours) - len(ties)
        if strays or ours != theirs:
            self.differences.append("\n  ".join([name, f"ours   {ours}", f"theirs {theirs}", *strays]))

    def __str__(self):
        return (
            f"{self.kinds[BOUND]} pods bound and {self.kinds[SENT_AWAY]} sent away: {self.decided} times one node was the best, "
            f"{self.ties} times several; {len(self.differences)} scenarios differ"
        )
