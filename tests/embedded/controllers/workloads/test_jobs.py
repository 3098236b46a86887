import pytest

from pytest_kscen.embedded.controllers.workloads import job_state
from pytest_kscen.embedded.controllers.workloads.job_state import INDEX
from pytest_kscen.objects.resources import JOBS, PODS

TRACKING = "batch.kubernetes.io/job-tracking"


@pytest.fixture
def job(world):
    def job(name="j", restart="Never", **spec):
        template = {
            "spec": {"restartPolicy": restart, "containers": [{"name": "c", "image": "app"}]}
        }
        return world.create(JOBS, name, {"template": template, **spec})

    return job


@pytest.fixture
def pod_life(world):
    """Let every pod live five seconds and end with a code: one for all, or by index."""

    def pod_life(codes=0):
        def life(pod):
            code = (
                codes.get(pod["metadata"]["labels"].get(INDEX), 0)
                if isinstance(codes, dict)
                else codes
            )
            return None if code is None else (5, code)

        world.pod_runner.life = life

    return pod_life


@pytest.fixture
def status_history(world):
    """Return the changes of the job's status, each with its second."""
    told = []

    async def follow():
        watch = world.api.watch(JOBS)
        while True:
            status = (await anext(watch)).object.get("status") or {}
            told.append((world.now, status))

    world.runner.start(follow(), "history")
    return told


def ends(world, name="j"):
    rows = world.status(JOBS, name).get("conditions", ())
    return [(row["type"], row["reason"]) for row in rows if row["status"] == "True"]


def test_job_completes_after_enough_successes(world, job, pod_life):
    pod_life(0)
    job(completions=3, parallelism=2)
    assert len(world.names(PODS)) == 2
    world.advance(14)
    status = world.status(JOBS, "j")
    assert ends(world) == [
        ("SuccessCriteriaMet", "CompletionsReached"),
        ("Complete", "CompletionsReached"),
    ]
    assert (status["succeeded"], status["startTime"], status["completionTime"]) == (
        3,
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:14Z",
    )
    assert status["uncountedTerminatedPods"] == {}
    assert world.events("j")[-1] == "Job completed"
    assert all(not pod["metadata"].get("finalizers") for pod in world.pods())


def test_finished_pods_are_recorded_released_and_counted(world, job, pod_life, status_history):
    pod_life(0)
    job()
    assert [pod["metadata"]["finalizers"] for pod in world.pods()] == [[TRACKING]]
    uid = world.pods()[0]["metadata"]["uid"]
    world.advance(10)
    booked = [
        (when, status.get("uncountedTerminatedPods"), status.get("succeeded", 0))
        for when, status in status_history
    ]
    assert booked[-2:] == [(7, {"succeeded": [uid]}, 0), (7, {}, 1)]


def test_work_queue_job_finishes_after_first_success(world, job):
    job(parallelism=2)
    first, second = world.names(PODS)
    world.advance(1)
    world.end(first)
    world.advance(1)
    assert world.status(JOBS, "j")["active"] == 1
    assert ends(world) == []
    world.end(second)
    world.advance(1)
    assert ends(world)[-1] == ("Complete", "CompletionsReached")


def test_failures_are_retried_with_backoff_up_to_limit(world, job, pod_life):
    pod_life(1)
    job(backoffLimit=2)
    world.advance(100)
    made = [pod["metadata"]["creationTimestamp"][-3:-1] for pod in world.pods()]
    assert sorted(made) == [
        "00",
        "16",
        "42",
    ]  # each lives for six seconds; then ten, then twenty seconds of waiting
    assert ends(world) == [
        ("FailureTarget", "BackoffLimitExceeded"),
        ("Failed", "BackoffLimitExceeded"),
    ]
    assert world.status(JOBS, "j")["failed"] == 3
    assert world.events("j")[-1] == "Job has reached the specified backoff limit"


def test_success_resets_backoff(world, job, pod_life):
    pod_life({None: 1})
    world.pod_runner.life = lambda pod: (5, 1 if world.pod_runner.count == 1 else 0)
    job(completions=2)
    world.advance(60)
    made = sorted(pod["metadata"]["creationTimestamp"][-3:-1] for pod in world.pods())
    assert made == ["00", "16", "23"]


def test_container_restarts_count_as_failures(world, job):
    job(restart="OnFailure", backoffLimit=2)
    world.advance(1)
    pod = world.pods()[0]
    restarts = [{"name": "c", "image": "app", "imageID": "", "ready": True, "restartCount": 2}]
    world.ask(world.pod_runner.tell(pod, "Running", ready=True, containerStatuses=restarts))
    world.advance(2)
    assert ends(world)[-1] == ("Failed", "BackoffLimitExceeded")
    assert world.names(PODS) == []


def test_job_ends_after_last_pod_is_gone(world, job):
    world.pod_runner.takedown = 5.0
    job(parallelism=2, completions=2, backoffLimit=0)
    world.advance(1)
    world.end(world.names(PODS)[0], 1)
    world.advance(1)
    assert ends(world) == [("FailureTarget", "BackoffLimitExceeded")]
    assert world.status(JOBS, "j")["terminating"] == 1
    world.advance(6)
    assert ends(world) == [
        ("FailureTarget", "BackoffLimitExceeded"),
        ("Failed", "BackoffLimitExceeded"),
    ]
    assert world.status(JOBS, "j")["failed"] == 2


def test_deadline_fails_job(world, job):
    job(activeDeadlineSeconds=30)
    world.advance(29)
    assert ends(world) == []
    world.advance(1)
    assert ends(world)[0] == ("FailureTarget", "DeadlineExceeded")
    world.advance(1)
    assert ends(world)[-1] == ("Failed", "DeadlineExceeded")


def test_suspended_job_has_no_pods_and_start_time(world, job, pod_life):
    pod_life(0)
    job(suspend=True, parallelism=2, completions=2)
    assert world.names(PODS) == []
    assert world.conditions(JOBS, "j") == {"Suspended": ("True", "JobSuspended")}
    assert "startTime" not in world.status(JOBS, "j")
    world.advance(10)
    world.patch(JOBS, "j", {"spec": {"suspend": False}})
    assert len(world.names(PODS)) == 2
    assert world.status(JOBS, "j")["startTime"] == "2026-01-01T00:00:10Z"
    world.advance(2)
    world.patch(JOBS, "j", {"spec": {"suspend": True}})
    world.advance(1)
    assert world.names(PODS) == []
    assert "failed" not in world.status(JOBS, "j")
    world.patch(JOBS, "j", {"spec": {"suspend": False}})
    world.advance(7)
    assert ends(world)[-1] == ("Complete", "CompletionsReached")
    assert world.events("j", "Suspended", "Resumed") == ["Job suspended", "Job resumed"]


def test_indexes_are_completed_once(world, job, pod_life):
    pod_life({"1": 1})
    job(completions=4, parallelism=2, completionMode="Indexed")
    assert sorted(pod["metadata"]["labels"][INDEX] for pod in world.pods()) == ["0", "1"]
    pod = world.pods()[0]
    assert pod["metadata"]["generateName"] == "j-0-"
    assert pod["spec"]["hostname"] == "j-0"
    [variable] = pod["spec"]["containers"][0]["env"]
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{INDEX}']"
    world.advance(50)
    status = world.status(JOBS, "j")
    assert status["completedIndexes"] == "0,2,3"
    pod_life(0)
    world.advance(200)
    assert world.status(JOBS, "j")["completedIndexes"] == "0-3"
    assert ends(world)[-1] == ("Complete", "CompletionsReached")


def test_index_fails_by_its_backoff_limit(world, job, pod_life):
    pod_life({"0": 1, "2": 42})
    rules = [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}}]
    job(
        completions=3,
        parallelism=3,
        completionMode="Indexed",
        backoffLimitPerIndex=1,
        podFailurePolicy={"rules": rules},
    )
    world.advance(60)
    status = world.status(JOBS, "j")
    assert (status["completedIndexes"], status["failedIndexes"], status["failed"]) == (
        "1",
        "0,2",
        3,
    )
    assert ends(world)[-1] == ("Failed", "FailedIndexes")
    counts = [
        pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"]
        for pod in world.pods()
    ]
    assert sorted(counts) == ["0", "0", "0", "1"]


def test_max_failed_indexes_fails_job(world, job, pod_life):
    pod_life({"0": 1, "1": 1, "2": None})
    spec = {"completionMode": "Indexed", "backoffLimitPerIndex": 0, "maxFailedIndexes": 1}
    job(completions=3, parallelism=3, **spec)
    world.advance(20)
    assert ends(world)[-1] == ("Failed", "MaxFailedIndexesExceeded")


def test_fail_job_policy(world, job, pod_life):
    pod_life(99)
    rules = [
        {
            "action": "FailJob",
            "onExitCodes": {"containerName": "c", "operator": "In", "values": [99]},
        }
    ]
    job(podFailurePolicy={"rules": rules})
    [name] = world.names(PODS)
    world.advance(8)
    assert ends(world)[-1] == ("Failed", "PodFailurePolicy")
    message = (
        f"Container c for pod default/{name} failed with exit code 99 matching FailJob rule "
        "at index 0"
    )
    assert world.events("j")[-1] == message


def test_ignore_policy(world, job):
    rules = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    ]
    job(backoffLimit=0, podFailurePolicy={"rules": rules})
    world.advance(1)
    pod = world.pods()[0]
    conditions = [{"type": "DisruptionTarget", "status": "True"}]
    patch = {"status": {"phase": "Failed", "conditions": conditions}}
    world.ask(
        world.api.patch(PODS, pod["metadata"]["name"], patch, "default", subresource="status")
    )
    world.advance(15)
    assert "failed" not in world.status(JOBS, "j")
    assert world.status(JOBS, "j")["active"] == 1


def test_success_policy(world, job, pod_life):
    pod_life({"0": None, "1": 0, "2": None})
    rules = [{"succeededIndexes": "1-2", "succeededCount": 1}]
    job(completions=3, parallelism=3, completionMode="Indexed", successPolicy={"rules": rules})
    world.advance(8)
    assert ends(world) == [("SuccessCriteriaMet", "SuccessPolicy"), ("Complete", "SuccessPolicy")]
    assert len(world.names(PODS)) == 1
    assert "failed" not in world.status(JOBS, "j")


def test_deleted_pod_is_replaced(world, job):
    job()
    world.advance(1)
    [name] = world.names(PODS)
    world.delete(PODS, name)
    world.advance(15)
    assert world.names(PODS) != [name]
    assert world.status(JOBS, "j")["failed"] == 1


def test_replacement_waits_for_failed_pod(world, job):
    world.pod_runner.takedown = 20.0
    job(podReplacementPolicy="Failed")
    world.advance(1)
    world.delete(PODS, world.names(PODS)[0])
    world.advance(10)
    assert len(world.names(PODS)) == 1
    assert world.status(JOBS, "j")["terminating"] == 1


def test_finished_job_is_deleted_after_ttl(world, job, pod_life):
    pod_life(0)
    job(ttlSecondsAfterFinished=10)
    world.advance(16)
    assert world.names(JOBS) == ["j"]
    world.advance(1)
    assert world.names(JOBS) == world.names(PODS) == []


def test_pods_are_released_after_job_deletion(world, job):
    job(parallelism=2)
    world.advance(1)
    world.delete(JOBS, "j", propagation="Background")
    world.advance(1)
    assert world.names(PODS) == []
    job()
    world.delete(JOBS, "j", propagation="Orphan")
    world.advance(1)
    [pod] = world.pods()
    assert "finalizers" not in pod["metadata"]


def test_reduced_parallelism_deletes_pods_uncounted(world, job):
    job(parallelism=3, completions=5)
    world.advance(1)
    world.patch(JOBS, "j", {"spec": {"parallelism": 1}})
    world.advance(2)
    assert len(world.names(PODS)) == 1
    assert "failed" not in world.status(JOBS, "j")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("", []), ("3", [3]), ("0,1", [0, 1]), ("0-2,5,7-9", [0, 1, 2, 5, 7, 8, 9])],
)
def test_index_sets(text, numbers):
    assert job_state.parse_indexes(text) == numbers
    assert job_state.format_indexes(numbers) == text
