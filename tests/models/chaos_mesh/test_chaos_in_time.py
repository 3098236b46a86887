PAUSE = {"metadata": {"annotations": {"experiment.chaos-mesh.org/pause": "true"}}}
GO_ON = {"metadata": {"annotations": {"experiment.chaos-mesh.org/pause": None}}}
CPU = {"stressors": {"cpu": {"workers": 1}}}


def marks(mesh):
    return len(mesh.pods()["a"]["metadata"].get("annotations", {}))


def test_chaos_ends_after_its_duration(mesh):
    mesh.pod("a")
    mesh.cluster.advance(10)
    mesh.chaos("StressChaos", app="a", duration="30s", **CPU)
    mesh.cluster.advance(29)
    assert (mesh.conditions("StressChaos"), marks(mesh)) == ("SI", 1)
    mesh.cluster.advance(2)
    assert (mesh.conditions("StressChaos"), marks(mesh)) == ("SR", 0)
    assert mesh.see("StressChaos")["status"]["experiment"]["desiredPhase"] == "Stop"
    assert {reason for reason, _ in mesh.events()} == {
        "FinalizerInited",
        "Started",
        "Updated",
        "Applied",
        "TimeUp",
        "Recovered",
    }


def test_pause_removes_chaos_while_it_lasts(mesh):
    mesh.pod("a")
    mesh.cluster.advance(10)
    mesh.chaos("StressChaos", app="a", **CPU)
    mesh.cluster.advance(1)
    mesh.patch("StressChaos", PAUSE)
    mesh.cluster.advance(1)
    assert (mesh.conditions("StressChaos"), marks(mesh)) == ("SRP", 0)
    mesh.patch("StressChaos", GO_ON)
    mesh.cluster.advance(1)
    assert (mesh.conditions("StressChaos"), marks(mesh)) == ("SI", 1)
    (record,) = mesh.records("StressChaos").values()
    assert (record["injectedCount"], record["recoveredCount"]) == (2, 1)


def test_pod_kill_cannot_be_paused(mesh):
    mesh.pod("a")
    mesh.cluster.advance(10)
    mesh.chaos("PodChaos", app="a", action="pod-kill", annotations=PAUSE["metadata"]["annotations"])
    mesh.cluster.advance(1)
    assert mesh.conditions("PodChaos") == "SIP"


def test_pod_created_later_is_not_selected(mesh):
    mesh.pod("a", app="x")
    mesh.cluster.advance(10)
    mesh.chaos("StressChaos", app="x", **CPU)
    mesh.cluster.advance(1)
    mesh.pod("b", app="x")
    mesh.cluster.advance(10)
    assert list(mesh.phases("StressChaos")) == ["default/a/c"]


def test_chaos_losing_its_finalizer_leaves_no_rule(mesh):
    mesh.pod("a")
    mesh.pod("b")
    mesh.cluster.advance(10)
    mesh.chaos("NetworkChaos", app="a", action="partition")
    mesh.cluster.advance(1)
    assert mesh.cut("a", "b")
    mesh.patch("NetworkChaos", {"metadata": {"finalizers": None}})
    mesh.delete("NetworkChaos")
    mesh.cluster.advance(1)
    assert mesh.see("NetworkChaos") is None
    assert not mesh.cut("a", "b")


def test_finalizer_of_others_is_kept(mesh):
    mesh.pod("a")
    mesh.cluster.advance(10)
    mesh.chaos("StressChaos", app="a", finalizers=["example.com/mine"], **CPU)
    mesh.cluster.advance(1)
    mesh.delete("StressChaos")
    mesh.cluster.advance(1)
    assert mesh.see("StressChaos")["metadata"]["finalizers"] == ["example.com/mine"]
    assert marks(mesh) == 0
