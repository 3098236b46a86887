"""Small objects for scenarios, and Scenario objects of them."""

API_VERSION = "simulation.kube-scheduler-simulator.x-k8s.io/v1alpha1"


def node(name="node-1", cpu="2", memory="4Gi", **spec):
    room = {"cpu": cpu, "memory": memory, "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": spec,
        "status": {"allocatable": room, "capacity": room},
    }


def pod(name, cpu="100m", **spec):
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], **spec},
    }


def create(step, obj, id=""):
    return {"id": id or obj["metadata"]["name"], "step": step, "createOperation": {"object": obj}}


def delete(step, kind, name, id=""):
    meta = {"name": name, "namespace": "default"} if kind == "Pod" else {"name": name}
    target = {"typeMeta": {"apiVersion": "v1", "kind": kind}, "objectMeta": meta}
    return {"id": id or f"delete {name}", "step": step, "deleteOperation": target}


def done(step):
    return {"id": "end", "step": step, "doneOperation": {}}


def scenario(*operations, controllers=("kube-scheduler",), name="test", disabled=()):
    chosen = {"simulationControllers": {"enabled": [{"name": each} for each in controllers]}}
    if disabled:
        chosen["presimulationControllers"] = {"disabled": [{"name": each} for each in disabled]}
    spec = {"controllers": chosen, "operations": list(operations)}
    return {"apiVersion": API_VERSION, "kind": "Scenario", "metadata": {"name": name}, "spec": spec}
