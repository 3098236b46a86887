PAUSE = {"metadata": {"annotations": {"experiment.chaos-mesh.org/pause": "true"}}}
GO_ON = {"metadata": {"annotations": {"experiment.chaos-mesh.org/pause": None}}}
CPU = {"stressors": {"cpu": {"workers": 1}}}


def marks(mesh_cluster):
    return len(mesh_cluster.pods()["a"]["metadata"].get("annotations", {}))


def test_chaos_ends_after_its_duration(mesh_cluster):
    mesh_cluster.pod("a")
    mesh_cluster.cluster.advance(10)
    mesh_cluster.chaos("StressChaos", app="a", duration="30s", **CPU)
    mesh_cluster.cluster.advance(29)
    assert (mesh_cluster.conditions("StressChaos"), marks(mesh_cluster)) == ("SI", 1)
    mesh_cluster.cluster.advance(2)
    assert (mesh_cluster.conditions("StressChaos"), marks(mesh_cluster)) == ("SR", 0)
    assert mesh_cluster.see("StressChaos")["status"]["experiment"]["desiredPhase"] == "Stop"
    assert {reason for reason, _ in mesh_cluster.events()} == {
        "FinalizerInited",
        "Started",
        "Updated",
        "Applied",
        "TimeUp",
        "Recovered",
    }


def test_pause_removes_chaos_while_it_lasts(mesh_cluster):
    mesh_cluster.pod("a")
    mesh_cluster.cluster.advance(10)
    mesh_cluster.chaos("StressChaos", app="a", **CPU)
    mesh_cluster.cluster.advance(1)
    mesh_cluster.patch("StressChaos", PAUSE)
    mesh_cluster.cluster.advance(1)
    assert (mesh_cluster.conditions("StressChaos"), marks(mesh_cluster)) == ("SRP", 0)
    mesh_cluster.patch("StressChaos", GO_ON)
    mesh_cluster.cluster.advance(1)
    assert (mesh_cluster.conditions("StressChaos"), marks(mesh_cluster)) == ("SI", 1)
    (record,) = mesh_cluster.records("StressChaos").values()
    assert (record["injectedCount"], record["recoveredCount"]) == (2, 1)


def test_pod_kill_cannot_be_paused(mesh_cluster):
    mesh_cluster.pod("a")
    mesh_cluster.cluster.advance(10)
    mesh_cluster.chaos(
        "PodChaos", app="a", action="pod-kill", annotations=PAUSE["metadata"]["annotations"]
    )
    mesh_cluster.cluster.advance(1)
    assert mesh_cluster.conditions("PodChaos") == "SIP"


def test_pod_created_later_is_not_selected(mesh_cluster):
    mesh_cluster.pod("a", app="x")
    mesh_cluster.cluster.advance(10)
    mesh_cluster.chaos("StressChaos", app="x", **CPU)
    mesh_cluster.cluster.advance(1)
    mesh_cluster.pod("b", app="x")
    mesh_cluster.cluster.advance(10)
    assert list(mesh_cluster.phases("StressChaos")) == ["default/a/c"]


def test_chaos_losing_its_finalizer_leaves_no_rule(mesh_cluster):
    mesh_cluster.pod("a")
    mesh_cluster.pod("b")
    mesh_cluster.cluster.advance(10)
    mesh_cluster.chaos("NetworkChaos", app="a", action="partition")
    mesh_cluster.cluster.advance(1)
    assert mesh_cluster.cut("a", "b")
    mesh_cluster.patch("NetworkChaos", {"metadata": {"finalizers": None}})
    mesh_cluster.delete("NetworkChaos")
    mesh_cluster.cluster.advance(1)
    assert mesh_cluster.see("NetworkChaos") is None
    assert not mesh_cluster.cut("a", "b")


def test_finalizer_of_others_is_kept(mesh_cluster):
    mesh_cluster.pod("a")
    mesh_cluster.cluster.advance(10)
    mesh_cluster.chaos("StressChaos", app="a", finalizers=["example.com/mine"], **CPU)
    mesh_cluster.cluster.advance(1)
    mesh_cluster.delete("StressChaos")
    mesh_cluster.cluster.advance(1)
    assert mesh_cluster.see("StressChaos")["metadata"]["finalizers"] == ["example.com/mine"]
    assert marks(mesh_cluster) == 0
