"""Random scenarios: different nodes, and pods with requests, affinities, spread and preemption."""

from tests.scenario.objects import create, delete, done, scenario

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
CLASSES = {
    "low": (100, "PreemptLowerPriority"),
    "polite": (500, "Never"),
    "high": (1000, "PreemptLowerPriority"),
}
APPS = ("web", "db", "batch")


def generated(chance):
    """One scenario. Every pod ends at once when it is deleted, and no kubelet is needed.

    Its nodes have names of their own: a real control plane remembers for a while when it last heard
    of a node of a name."""
    name = f"generated-{chance.suffix(6)}"
    steps = [
        [
            *map(_class, CLASSES),
            *(_node(chance, f"{name}-node-{number}") for number in range(chance.whole(2, 6))),
        ]
    ]
    made = []
    for _ in range(chance.whole(2, 3)):
        pods = [_pod(chance, len(made) + number) for number in range(chance.whole(2, 5))]
        made += pods
        steps.append(pods)
    operations = [create(step, obj) for step, objs in enumerate(steps, 1) for obj in objs]
    staying = [
        each["metadata"]["name"] for each in made if each["spec"].get("priorityClassName") == "high"
    ]
    if staying:
        operations.append(delete(len(steps) + 1, "Pod", chance.choice(staying)))
    return scenario(*operations, done(len(steps) + 2), disabled=["kubelet"], name=name)


def _class(name):
    value, policy = CLASSES[name]
    about = {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **about}


def _node(chance, name):
    room = {
        "cpu": str(chance.choice((1, 2, 2, 3, 4))),
        "memory": f"{chance.choice((2, 3, 5, 8))}Gi",
        "pods": str(chance.choice((3, 110))),
    }
    labels = {HOST: name, ZONE: f"zone-{chance.below(3)}", "disk": chance.choice(("fast", "slow"))}
    taints = (
        [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]
        if chance.below(5) == 0
        else []
    )
    taints += [{"key": "old", "effect": "PreferNoSchedule"}] if chance.below(4) == 0 else []
    conditions = [{"type": "Ready", "status": "True", "reason": "Made"}]
    spec = {"taints": taints} if taints else {}
    status = {"capacity": room, "allocatable": room, "conditions": conditions}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": status,
    }


def _pod(chance, number):
    app = chance.choice(APPS)
    requests = {
        "cpu": f"{chance.choice((150, 300, 700, 1300, 1900))}m",
        "memory": f"{chance.choice((130, 370, 900, 2100))}Mi",
    }
    spec = {
        "containers": [{"name": "main", "image": "app:1", "resources": {"requests": requests}}],
        "terminationGracePeriodSeconds": 0,
        **(chance.choice(WISHES)(app)),
    }
    if chance.below(2):
        spec["priorityClassName"] = chance.choice(tuple(CLASSES))
    if chance.below(4) == 0:
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    metadata = {"name": f"pod-{number:02}", "namespace": "default", "labels": {"app": app}}
    began = {
        "startTime": f"2026-01-01T00:00:{number:02}Z"
    }  # there is no kubelet to say it, and without it each began just now
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": began}


def _term(app, key):
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def _spread(app, key, when):
    return {
        "topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": when, **_term(app, key)}]
    }


def _disk(kind, kept):
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": [kind]}]}
    if kept:
        return {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
                }
            }
        }
    return {
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 30, "preference": term}
                ]
            }
        }
    }


def _near(kind, app, key, *, kept):
    if kept:
        return {
            "affinity": {
                kind: {"requiredDuringSchedulingIgnoredDuringExecution": [_term(app, key)]}
            }
        }
    wish = {"weight": 40, "podAffinityTerm": _term(app, key)}
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}}


WISHES = (
    lambda app: {},
    lambda app: {},
    lambda app: {"nodeSelector": {"disk": "fast"}},
    lambda app: _disk("fast", kept=True),
    lambda app: _disk("slow", kept=False),
    lambda app: _spread(app, ZONE, "DoNotSchedule"),
    lambda app: _spread(app, HOST, "ScheduleAnyway"),
    lambda app: _near("podAffinity", app, ZONE, kept=True),
    lambda app: _near("podAffinity", "web", ZONE, kept=False),
    lambda app: _near("podAntiAffinity", app, HOST, kept=True),
    lambda app: _near("podAntiAffinity", "db", ZONE, kept=False),
)
