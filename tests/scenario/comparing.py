"""Where the pods of a scenario went on two clusters, and whether a difference may be luck: where the best scores were equal."""


def fates(played):
    """By pod: what became of it, in order: a node each time it was bound, and who was sent away."""
    found = {}
    for event in played.timeline:
        if event.pod_scheduled:
            found.setdefault(event.pod_scheduled.pod.name, []).append(event.pod_scheduled.bound_to)
        elif event.pod_unscheduled:
            found.setdefault(event.pod_unscheduled.pod.name, []).append("preempted")
    return found


def first_tie(played):
    """The first pod for which several nodes were the best; None if there was none."""
    for event in played.timeline.of("podAttempted"):
        attempt = event.pod_attempted
        totals = [sum(map(int, scores.values())) for scores in (attempt.results.get("finalscore-result") or {}).values()]
        if attempt.node and len(totals) > 1 and totals.count(max(totals)) > 1:
            return attempt.pod.name
    return None


def order(played):
    """The pods in the order in which they were bound or sent away, with their nodes."""
    found = []
    for event in played.timeline:
        if event.pod_scheduled:
            found.append((event.pod_scheduled.pod.name, event.pod_scheduled.bound_to))
        elif event.pod_unscheduled:
            found.append((event.pod_unscheduled.pod.name, "preempted"))
    return found


def until_luck(played, other):
    """Both orders up to the first pod whose place was a matter of luck."""
    lucky = first_tie(played)
    ours, theirs = order(played), order(other)
    if lucky is None:
        return ours, theirs
    end = next((number for number, (pod, _) in enumerate(ours) if pod == lucky), len(ours))
    return ours[:end], theirs[:end]
