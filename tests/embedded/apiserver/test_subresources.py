import pytest

from pytest_kscen.embedded.apiserver.admission import Hook
from pytest_kscen.objects.errors import (
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    MethodNotAllowed,
    NotFound,
    ServiceUnavailable,
    TooManyRequests,
)
from pytest_kscen.objects.resources import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SERVICE_ACCOUNTS,
    Resource,
)

CONTAINERS = [{"name": "c", "image": "i"}]
SYNC_FAILED = {
    "type": "DisruptionAllowed",
    "status": "False",
    "reason": "SyncFailed",
    "message": "boo",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def binding(name="p", **target):
    return {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n", **target}}


class TestScale:
    @pytest.fixture
    def deployment(self, site):
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": CONTAINERS}}
        selector = {
            "matchLabels": {"a": "b"},
            "matchExpressions": [{"key": "a", "operator": "In", "values": ["c", "b"]}],
        }
        return site.create(
            DEPLOYMENTS, "web", spec={"replicas": 2, "selector": selector, "template": template}
        )

    def scale(self, site, body=None, verb="update", **more):
        return site.ask(verb, DEPLOYMENTS, "web", body=body, subresource="scale", **more)

    def test_scale_is_view_of_object(self, site, deployment):
        metadata = {
            name: deployment["metadata"][name]
            for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        }
        assert self.scale(site, verb="get") == {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": metadata,
            "spec": {"replicas": 2},
            "status": {"replicas": 0, "selector": "a=b,a in (b,c)"},
        }

    def test_scale_write_changes_object(self, site, deployment):
        assert self.scale(site, {"metadata": {"name": "web"}, "spec": {"replicas": 3}})["spec"] == {
            "replicas": 3
        }
        scaled = site.get(DEPLOYMENTS, "web")
        assert (scaled["spec"]["replicas"], scaled["metadata"]["generation"]) == (3, 2)
        assert scaled["spec"]["template"] is deployment["spec"]["template"]
        patch = {
            "body": {"spec": {"replicas": 4}},
            "verb": "patch",
            "patch_type": "application/merge-patch+json",
        }
        assert self.scale(site, **patch)["spec"] == {"replicas": 4}
        assert self.scale(site, {"metadata": {"name": "web"}, "spec": {}})["spec"] == {}
        assert site.get(DEPLOYMENTS, "web")["spec"]["replicas"] == 0

    def test_invalid_request_is_refused(self, site, deployment):
        with pytest.raises(Invalid) as refusal:
            self.scale(site, {"metadata": {"name": "web"}, "spec": {"replicas": -1}})
        assert str(refusal.value) == (
            'Scale.autoscaling "web" is invalid: spec.replicas: Invalid value: -1: must '
            "be greater than or equal to 0"
        )
        with pytest.raises(
            Conflict,
            match=r'^Operation cannot be fulfilled on deployments\.apps "web": the object has been',
        ):
            self.scale(
                site, {"metadata": {"name": "web", "resourceVersion": "1"}, "spec": {"replicas": 3}}
            )
        with pytest.raises(BadRequest, match="does not match the name on the URL"):
            self.scale(site, {"metadata": {"name": "other"}, "spec": {"replicas": 3}})
        with pytest.raises(BadRequest, match="cannot be handled as a Scale"):
            self.scale(
                site, {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "web"}}
            )
        with pytest.raises(NotFound, match=r'^deployments\.apps "other" not found$'):
            site.ask("get", DEPLOYMENTS, "other", subresource="scale")

    def test_custom_scale_uses_defined_paths(self, site):
        site.create(site.thing, "t", spec={"replicas": 1, "selector": "a=b"})
        assert site.ask("get", site.thing, "t", subresource="scale")["status"] == {
            "replicas": 0,
            "selector": "a=b",
        }
        body = {"metadata": {"name": "t"}, "spec": {"replicas": 5}}
        site.ask("update", site.thing, "t", subresource="scale", body=body)
        assert site.get(site.thing, "t")["spec"] == {"replicas": 5, "selector": "a=b"}


class TestBinding:
    @pytest.fixture(autouse=True)
    def pod(self, site):
        return site.create(PODS, "p", spec={"containers": CONTAINERS})

    def bind(self, site, body, name="p", **more):
        return site.ask("create", PODS, name, body=body, subresource="binding", **more)

    def test_binding_sets_node(self, site):
        body = binding()
        body["metadata"].update(labels={"zone": "z"}, annotations={"a": "b"})
        assert (self.bind(site, body), site.code) == (SUCCESS, 201)
        pod = site.get(PODS, "p")
        assert (
            pod["spec"]["nodeName"],
            pod["metadata"]["labels"],
            pod["metadata"]["annotations"],
        ) == (
            "n",
            {"zone": "z"},
            {"a": "b"},
        )
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        assert scheduled in pod["status"]["conditions"]
        assert pod["metadata"]["generation"] == 1

    def test_deprecated_binding_resource(self, site):
        site.ask("create", Resource("", "v1", "bindings", "Binding"), body=binding())
        assert site.get(PODS, "p")["spec"]["nodeName"] == "n"
        with pytest.raises(BadRequest, match=r"^Name parameter required\.$"):
            site.ask("create", Resource("", "v1", "bindings", "Binding"), body={"metadata": {}})

    def test_dry_run_binds_no_pod(self, site):
        self.bind(site, binding(), dry_run=True)
        assert "nodeName" not in site.get(PODS, "p")["spec"]

    @pytest.mark.parametrize(
        ("prepare", "why"),
        [
            ({"nodeName": "m"}, 'pod q is already assigned to node "m"'),
            ({"schedulingGates": [{"name": "g"}]}, "pod q has non-empty .spec.schedulingGates"),
            ({}, "pod q is being deleted, cannot be assigned to a host"),
        ],
    )
    def test_unbindable_pod_is_refused(self, site, prepare, why):
        site.create(
            PODS, "q", metadata={"finalizers": ["x/y"]}, spec={"containers": CONTAINERS, **prepare}
        )
        if not prepare:
            site.delete(PODS, "q")
        with pytest.raises(Conflict) as refusal:
            self.bind(site, binding("q"), "q")
        assert str(refusal.value) == f'Operation cannot be fulfilled on pods/binding "q": {why}'
        assert refusal.value.status["details"] == {"name": "q", "kind": "pods/binding"}

    @pytest.mark.parametrize(
        ("body", "code", "why"),
        [
            (binding(name=""), 500, "target.name: Required value"),
            (
                binding(kind="Pod"),
                500,
                'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"',
            ),
            (binding("q"), 400, "name in URL does not match name in Binding object"),
        ],
    )
    def test_invalid_binding_is_refused(self, site, body, code, why):
        if not body["metadata"]["name"]:
            body = {"metadata": {"name": "p"}, "target": {}}
        with pytest.raises(ApiError) as refusal:
            self.bind(site, body)
        assert (refusal.value.code, str(refusal.value)) == (code, why)

    def test_binding_checks_pod_uid(self, site):
        body = binding()
        body["metadata"]["uid"] = "other"
        with pytest.raises(Conflict, match="Precondition failed: UID in precondition: other"):
            self.bind(site, body)


class TestEviction:
    @pytest.fixture(autouse=True)
    def pod(self, site):
        site.create(
            PODS,
            "p",
            metadata={"labels": {"app": "x"}},
            spec={"nodeName": "n", "containers": CONTAINERS},
        )
        self.make(site, "Running", ready=True)

    def make(self, site, phase, *, ready):
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        site.patch(
            PODS, "p", {"status": {"phase": phase, "conditions": conditions}}, subresource="status"
        )

    def budget(self, site, name="b", *, spec=None, **status):
        budget = site.create(
            POD_DISRUPTION_BUDGETS,
            name,
            spec={"selector": {"matchLabels": {"app": "x"}}, **(spec or {})},
        )
        status = {
            "observedGeneration": budget["metadata"]["generation"],
            "disruptionsAllowed": 0,
            **status,
        }
        site.patch(POD_DISRUPTION_BUDGETS, name, {"status": status}, subresource="status")

    def evict(self, site, *, name="p", **more):
        body = {"metadata": {"name": name}, **more.pop("eviction", {})}
        return site.ask("create", PODS, "p", body=body, subresource="eviction", **more)

    def test_eviction_without_budget_deletes_pod(self, site):
        assert (
            self.evict(site, eviction={"deleteOptions": {"gracePeriodSeconds": 5}}),
            site.code,
        ) == (SUCCESS, 201)
        pod = site.get(PODS, "p")
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 5
        assert pod["status"]["conditions"][-1] == {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }

    def test_eviction_uses_budget(self, site):
        self.budget(site, disruptionsAllowed=1, currentHealthy=2, desiredHealthy=1)
        self.evict(site, dry_run=True)
        self.evict(site)
        status = site.get(POD_DISRUPTION_BUDGETS, "b")["status"]
        assert (status["disruptionsAllowed"], status["disruptedPods"]) == (
            0,
            {"p": "2026-01-01T00:00:00Z"},
        )
        assert [
            (each["type"], each["status"], each["reason"]) for each in status["conditions"]
        ] == [("DisruptionAllowed", "False", "InsufficientPods")]
        assert site.get(PODS, "p")["metadata"]["deletionGracePeriodSeconds"] == 30

    @pytest.mark.parametrize(
        ("status", "why", "more"),
        [
            (
                {"currentHealthy": 1, "desiredHealthy": 1},
                "The disruption budget b needs 1 healthy pods and has 1 currently",
                {},
            ),
            (
                {"currentHealthy": 3, "desiredHealthy": 1},
                "The disruption budget b does not allow evicting pods currently",
                {},
            ),
            (
                {"observedGeneration": 0},
                "The disruption budget b is still being processed by the server.",
                {"retryAfterSeconds": 10},
            ),
            (
                {"conditions": [SYNC_FAILED]},
                (
                    "The disruption budget b does not allow evicting pods currently because "
                    "it failed sync: boo"
                ),
                {},
            ),
        ],
    )
    def test_exhausted_budget_refuses_eviction(self, site, status, why, more):
        self.budget(site, **status)
        with pytest.raises(TooManyRequests) as refusal:
            self.evict(site)
        assert (
            str(refusal.value)
            == "Cannot evict pod as it would violate the pod's disruption budget."
        )
        assert refusal.value.status["details"] == {
            "causes": [{"reason": "DisruptionBudget", "message": why}],
            **more,
        }
        assert "deletionTimestamp" not in site.get(PODS, "p")["metadata"]

    def test_pod_with_two_budgets_is_refused(self, site):
        self.budget(site, "b")
        self.budget(site, "c")
        with pytest.raises(ApiError, match="more than one PodDisruptionBudget"):
            self.evict(site)

    @pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
    def test_pod_that_is_not_running_is_evicted(self, site, phase):
        self.budget(site)
        self.make(site, phase, ready=False)
        self.evict(site)

    @pytest.mark.parametrize(
        ("spec", "status", "goes"),
        [
            ({}, {"currentHealthy": 1, "desiredHealthy": 1}, True),
            ({}, {"currentHealthy": 0, "desiredHealthy": 1}, False),
            (
                {"unhealthyPodEvictionPolicy": "AlwaysAllow"},
                {"currentHealthy": 0, "desiredHealthy": 1},
                True,
            ),
        ],
    )
    def test_unready_pod_follows_budget_policy(self, site, spec, status, goes):
        self.budget(site, spec=spec, **status)
        self.make(site, "Running", ready=False)
        if goes:
            self.evict(site)
            assert site.get(POD_DISRUPTION_BUDGETS, "b")["status"]["disruptionsAllowed"] == 0
        else:
            with pytest.raises(TooManyRequests):
                self.evict(site)

    def test_eviction_refused_by_admission_keeps_budget(self, site):
        self.budget(site, disruptionsAllowed=1)
        before = site.store.revision
        site.core.admission.add(
            Hook("keep", validate=lambda _: "keep it", resources=[PODS], operations=["DELETE"])
        )
        with pytest.raises(Forbidden, match="keep it"):
            self.evict(site)
        assert site.store.revision == before

    def test_budget_used_during_admission_refuses_eviction(self, site):
        self.budget(site, disruptionsAllowed=1)

        async def meanwhile(_):
            await site.api.patch(
                POD_DISRUPTION_BUDGETS,
                "b",
                {"status": {"disruptionsAllowed": 0}},
                "default",
                subresource="status",
            )

        site.core.admission.add(
            Hook("slow", validate=meanwhile, resources=[PODS], operations=["DELETE"])
        )
        with pytest.raises(TooManyRequests):
            self.evict(site)
        assert "deletionTimestamp" not in site.get(PODS, "p")["metadata"]

    def test_invalid_request_is_refused(self, site):
        with pytest.raises(
            BadRequest, match=r"^name in URL does not match name in Eviction object$"
        ):
            self.evict(site, name="q")
        with pytest.raises(
            Conflict,
            match=r'^Operation cannot be fulfilled on Pod "p": the UID in the precondition \(x\)',
        ):
            self.evict(site, eviction={"deleteOptions": {"preconditions": {"uid": "x"}}})
        self.evict(site, eviction={"apiVersion": "policy/v1beta1", "kind": "Eviction"})


class TestLogs:
    class Kubelet:
        async def read(self, namespace, pod, container, options):
            return f"{namespace}/{pod}/{container} {options}"

    @pytest.fixture(autouse=True)
    def pods(self, site):
        site.core.logs = self.Kubelet()
        two = [*CONTAINERS, {"name": "d", "image": "i"}]
        site.create(PODS, "one", spec={"nodeName": "n", "containers": CONTAINERS})
        site.create(
            PODS,
            "two",
            spec={
                "nodeName": "n",
                "containers": two,
                "initContainers": [{"name": "e", "image": "i"}],
            },
        )
        site.create(PODS, "waits", spec={"containers": CONTAINERS})

    def log(self, site, name, **options):
        return site.get(PODS, name, subresource="log", extra=tuple(options.items()))

    def test_log_request_reaches_kubelet(self, site):
        assert self.log(site, "one", tailLines="5") == "default/one/c {'tailLines': '5'}"
        assert self.log(site, "two", container="e") == "default/two/e {'container': 'e'}"
        assert (self.log(site, "waits"), site.code) == ("", 204)

    @pytest.mark.parametrize(
        ("name", "options", "words"),
        [
            (
                "two",
                {},
                (
                    "a container name must be specified for pod two, choose one of: [c d] or "
                    "one of the init containers: [e]"
                ),
            ),
            ("one", {"container": "x"}, "container x is not valid for pod one"),
            ("one", {"tailLines": "x"}, 'strconv.ParseInt: parsing "x": invalid syntax'),
            (
                "one",
                {"tailLines": "-1"},
                (
                    'PodLogOptions "one" is invalid: tailLines: Invalid value: -1: must be '
                    "greater than or equal to 0"
                ),
            ),
            (
                "one",
                {"sinceSeconds": "0"},
                (
                    'PodLogOptions "one" is invalid: sinceSeconds: Invalid value: 0: must be '
                    "greater than 0"
                ),
            ),
            (
                "one",
                {"sinceSeconds": "1", "sinceTime": "2026-01-01T00:00:00Z"},
                (
                    'PodLogOptions "one" is invalid: []: Forbidden: at most one of '
                    "`sinceTime` or `sinceSeconds` may be specified"
                ),
            ),
        ],
    )
    def test_invalid_log_options_are_refused(self, site, name, options, words):
        with pytest.raises(ApiError) as refusal:
            self.log(site, name, **options)
        assert str(refusal.value) == words

    def test_logs_require_kubelets(self, site):
        site.core.logs = None
        with pytest.raises(ServiceUnavailable, match="no kubelet of this cluster keeps logs"):
            self.log(site, "one")
        with pytest.raises(NotFound):
            self.log(site, "other")


class TestTokens:
    @pytest.fixture(autouse=True)
    def account(self, site):
        site.create(SERVICE_ACCOUNTS, "a")

    def ask(self, site, **spec):
        return site.ask("create", SERVICE_ACCOUNTS, "a", body={"spec": spec}, subresource="token")

    def test_token_expires_after_an_hour_by_default(self, site):
        usual, short = self.ask(site), self.ask(site, expirationSeconds=700, audiences=["x"])
        assert usual["status"]["expirationTimestamp"] == "2026-01-01T01:00:00Z"
        assert short["status"]["expirationTimestamp"] == "2026-01-01T00:11:40Z"
        assert short["spec"] == {
            "audiences": ["x"],
            "expirationSeconds": 700,
            "boundObjectRef": None,
        }
        assert usual["status"]["token"] != short["status"]["token"]

    def test_token_identifies_its_account(self, site):
        review = {"spec": {"token": self.ask(site)["status"]["token"]}}
        reviews = Resource(
            "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False
        )
        status = site.ask("create", reviews, body=review)["status"]
        assert (status["authenticated"], status["user"]["username"]) == (
            True,
            "system:serviceaccount:default:a",
        )
        assert site.ask("create", reviews, body={"spec": {"token": "x"}})["status"] == {
            "user": {},
            "error": "invalid bearer token",
        }

    @pytest.mark.parametrize(
        ("spec", "code", "words"),
        [
            ({"expirationSeconds": 5}, 422, "may not specify a duration less than 10 minutes"),
            (
                {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}},
                404,
                'pods "p" not found',
            ),
            (
                {"boundObjectRef": {"kind": "Foo", "apiVersion": "v1", "name": "p"}},
                400,
                "cannot bind token to object of type /v1, Kind=Foo",
            ),
        ],
    )
    def test_invalid_request_is_refused(self, site, spec, code, words):
        with pytest.raises(ApiError, match=f"{words}$") as refusal:
            self.ask(site, **spec)
        assert refusal.value.code == code


class TestOthers:
    def test_reviews_are_answered_and_not_stored(self, site):
        access = Resource(
            "authorization.k8s.io",
            "v1",
            "selfsubjectaccessreviews",
            "SelfSubjectAccessReview",
            namespaced=False,
        )
        review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
        assert site.ask("create", access, body=review)["status"] == {"allowed": True}
        with pytest.raises(
            Invalid,
            match="exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ):
            site.ask("create", access, body={"spec": {}})
        myself = Resource(
            "authentication.k8s.io",
            "v1",
            "selfsubjectreviews",
            "SelfSubjectReview",
            namespaced=False,
        )
        assert (
            site.ask("create", myself, body={})["status"]["userInfo"]["username"] == "system:admin"
        )
        rules = Resource(
            "authorization.k8s.io",
            "v1",
            "selfsubjectrulesreviews",
            "SelfSubjectRulesReview",
            namespaced=False,
        )
        with pytest.raises(BadRequest, match=r"^no namespace on request$"):
            site.ask("create", rules, body={"spec": {}})
        components = Resource("", "v1", "componentstatuses", "ComponentStatus", namespaced=False)
        assert site.names(components) == ["scheduler", "controller-manager", "etcd-0"]
        assert site.store.revision == 1

    def test_streaming_subresources_are_refused(self, site):
        site.create(PODS, "p", spec={"containers": CONTAINERS})
        with pytest.raises(BadRequest, match=r"^pod p does not have a host assigned$"):
            site.ask("get", PODS, "p", subresource="exec")
        site.ask("create", PODS, "p", body=binding(), subresource="binding")
        with pytest.raises(BadRequest, match=r"^Upgrade request required$"):
            site.ask("create", PODS, "p", subresource="exec")

    def test_subresource_verbs(self, site):
        site.create(PODS, "p", spec={"containers": CONTAINERS})
        with pytest.raises(MethodNotAllowed):
            site.ask("get", PODS, "p", subresource="binding")
        assert site.get(PODS, "p", subresource="status") is site.get(PODS, "p")
