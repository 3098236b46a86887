import pytest

from pytest_kscen.embedded.scheduler.configuration_loading import (
    ConfigurationError,
    load_configuration,
)
from pytest_kscen.embedded.scheduler.framework.configuration import (
    DEFAULT_PLUGINS,
    ProfileConfiguration,
    SchedulerConfiguration,
)
from pytest_kscen.embedded.scheduler.registry import Registry
from pytest_kscen.objects.resources import CONFIG_MAPS, EVENTS
from pytest_kscen.scheduler import Plugin

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def configured(**fields):
    return load_configuration({**HEAD, **fields}, Registry())


def profiled(plugins=None, **fields):
    return configured(profiles=[{"plugins": plugins or {}, **fields}]).profiles[0]


def implements(name, point):
    return Registry().resolve(name).implements(point)


IN_TREE = (
    *(
        "DefaultBinder",
        "DefaultPreemption",
        "DynamicResources",
        "GangScheduling",
        "ImageLocality",
        "InterPodAffinity",
    ),
    *(
        "NodeAffinity",
        "NodeDeclaredFeatures",
        "NodeName",
        "NodePorts",
        "NodeResourcesBalancedAllocation",
        "NodeResourcesFit",
    ),
    *(
        "NodeUnschedulable",
        "NodeVolumeLimits",
        "PodGroupPodsCount",
        "PodTopologySpread",
        "PrioritySort",
        "SchedulingGates",
    ),
    *(
        "TaintToleration",
        "TopologyPlacementGenerator",
        "VolumeBinding",
        "VolumeRestrictions",
        "VolumeZone",
    ),
)
"""The names that kube-scheduler 1.36 knows without any plugin of somebody's own."""


class TestDefaults:
    def test_empty_configuration_is_default(self):
        assert configured() == SchedulerConfiguration()
        assert configured().profiles == (ProfileConfiguration("default-scheduler"),)

    def test_default_plugins_per_point(self):
        profile = ProfileConfiguration()
        assert profile.at("queueSort", implements) == ["PrioritySort"]
        assert profile.at("filter", implements)[:4] == [
            "NodeUnschedulable",
            "NodeName",
            "TaintToleration",
            "NodeAffinity",
        ]
        scores = profile.at("score", implements)
        assert {
            name: profile.weight(name)
            for name in scores
            if name not in {"PodTopologySpread", "InterPodAffinity"}
        } == {
            "TaintToleration": 3,
            "NodeAffinity": 2,
            "NodeResourcesFit": 1,
            "NodeResourcesBalancedAllocation": 1,
            "ImageLocality": 1,
        }
        assert (profile.weight("PodTopologySpread"), profile.weight("InterPodAffinity")) == (2, 2)


class TestMerging:
    def test_plugin_disabled_at_one_point(self):
        profile = profiled({"score": {"disabled": [{"name": "ImageLocality"}]}})
        assert "ImageLocality" not in profile.at("score", implements)
        assert "ImageLocality" in profile.names()

    def test_all_plugins_disabled_at_one_point(self):
        profile = profiled(
            {
                "score": {
                    "disabled": [{"name": "*"}],
                    "enabled": [{"name": "NodeResourcesFit", "weight": 7}],
                }
            }
        )
        assert profile.at("score", implements) == ["NodeResourcesFit"]
        assert profile.weight("NodeResourcesFit") == 7
        assert "TaintToleration" in profile.at("filter", implements)

    def test_plugin_disabled_everywhere(self):
        profile = profiled({"multiPoint": {"disabled": [{"name": "TaintToleration"}]}})
        assert "TaintToleration" not in profile.names()

    def test_all_plugins_disabled_everywhere(self):
        enabled = [{"name": name} for name in ("PrioritySort", "NodeResourcesFit", "DefaultBinder")]
        profile = profiled({"multiPoint": {"disabled": [{"name": "*"}], "enabled": enabled}})
        assert profile.names() == ["PrioritySort", "NodeResourcesFit", "DefaultBinder"]
        assert profile.weight("NodeResourcesFit") == 1

    def test_changed_weight_keeps_order(self):
        profile = profiled({"multiPoint": {"enabled": [{"name": "TaintToleration", "weight": 9}]}})
        assert profile.names() == [plugin.name for plugin in DEFAULT_PLUGINS.enabled]
        assert profile.weight("TaintToleration") == 9

    def test_point_settings_precede_multi_point(self):
        profile = profiled({"score": {"enabled": [{"name": "ImageLocality", "weight": 4}]}})
        assert profile.at("score", implements)[0] == "ImageLocality"
        assert profile.weight("ImageLocality") == 4


class TestReading:
    @pytest.mark.parametrize("name", IN_TREE)
    def test_all_upstream_plugins_can_be_named(self, name):
        found = profiled({"multiPoint": {"enabled": [{"name": name}]}})
        assert name in found.names()

    def test_gang_points_are_accepted(self):
        generating = {"placementGenerate": {"enabled": [{"name": "TopologyPlacementGenerator"}]}}
        assert profiled(generating).names() == [plugin.name for plugin in DEFAULT_PLUGINS.enabled]

    def test_complete_configuration(self):
        found = load_configuration(
            """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 30
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 20
parallelism: 4
leaderElection: {leaderElect: false}
profiles:
- schedulerName: one
- schedulerName: two
  percentageOfNodesToScore: 100
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 5}]}
extenders:
- urlPrefix: http://127.0.0.1:8000/x
  filterVerb: filter
  prioritizeVerb: prioritize
  weight: 3
  httpTimeout: 30s
  managedResources: [{name: example.com/card, ignoredByScheduler: true}]
""",
            Registry(),
        )
        assert (
            found.percentage,
            found.initial_backoff,
            found.longest_backoff,
            found.parallelism,
        ) == (30, 2, 20, 4)
        assert [(one.name, one.percentage) for one in found.profiles] == [
            ("one", None),
            ("two", 100),
        ]
        assert (
            found.profiles[1].arguments["NodeResourcesFit"]["scoringStrategy"]["type"]
            == "MostAllocated"
        )
        (extender,) = found.extenders
        assert (extender.filter, extender.weight, extender.timeout, extender.managed) == (
            "filter",
            3,
            30,
            ("example.com/card",),
        )
        assert extender.ignored_by_scheduler == ("example.com/card",)

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"profile": []}, "profile: there is no such field (did you mean 'profiles'?)"),
            ({"parallelism": 0}, "parallelism: 0 is not from 1 upwards"),
            (
                {"percentageOfNodesToScore": 101},
                "percentageOfNodesToScore: 101 is not from 0 to 100",
            ),
            (
                {"podInitialBackoffSeconds": 30},
                "podMaxBackoffSeconds: it is less than podInitialBackoffSeconds",
            ),
            (
                {"profiles": [{"plugins": {"score": {"enabled": [{"name": "ImageLocalty"}]}}}]},
                (
                    "profiles[0].plugins.score.enabled[0]: there is no plugin 'ImageLocalty' "
                    "(did you mean 'ImageLocality'?)"
                ),
            ),
            (
                {"profiles": [{"plugins": {"scores": {}}}]},
                "profiles[0].plugins.scores: there is no such field (did you mean 'score'?)",
            ),
            (
                {"profiles": [{"plugins": {"score": {"enabled": [{"name": "NodeName"}]}}}]},
                (
                    "profiles[0].plugins.score.enabled[0]: NodeName does not implement score, "
                    "but filter"
                ),
            ),
            (
                {
                    "profiles": [
                        {"plugins": {"placementScore": {"enabled": [{"name": "NodeName"}]}}}
                    ]
                },
                (
                    "profiles[0].plugins.placementScore.enabled[0]: NodeName does not "
                    "implement placementScore, but filter"
                ),
            ),
            (
                {"profiles": [{"plugins": {"bind": {"disabled": [{"name": "*"}]}}}]},
                "profiles[0]: at least one bind plugin is needed",
            ),
            (
                {"profiles": [{}, {"schedulerName": "b"}]},
                (
                    "profiles[0].schedulerName is missing: where there are several profiles, "
                    "each needs one"
                ),
            ),
            (
                {"profiles": [{"schedulerName": "b"}, {"schedulerName": "b"}]},
                "profiles[1].schedulerName: 'b' is the name of another profile",
            ),
            (
                {
                    "profiles": [
                        {
                            "pluginConfig": [
                                {"name": "PodTopologySpread", "args": {"defaultingType": "Lists"}}
                            ]
                        }
                    ]
                },
                (
                    "profiles[0].pluginConfig[0].args.defaultingType: 'Lists' is not one of "
                    "System, List (did you mean 'List'?)"
                ),
            ),
            (
                {"profiles": [{"pluginConfig": [{"name": "ImageLocality", "args": {"size": 1}}]}]},
                "profiles[0].pluginConfig[0].args.size: there is no such field",
            ),
            (
                {
                    "profiles": [
                        {
                            "pluginConfig": [
                                {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 101}}
                            ]
                        }
                    ]
                },
                "profiles[0].pluginConfig[0].args.hardPodAffinityWeight: 101 is not from 0 to 100",
            ),
            ({"extenders": [{"filterVerb": "f"}]}, "extenders[0].urlPrefix is missing"),
            (
                {"extenders": [{"urlPrefix": "u", "prioritizeVerb": "p"}]},
                "extenders[0].weight is missing: a prioritizeVerb needs one",
            ),
        ],
    )
    def test_invalid_configuration_is_refused(self, fields, words):
        with pytest.raises(ConfigurationError) as refusal:
            configured(**fields)
        assert str(refusal.value) == words

    def test_malformed_yaml_is_refused(self):
        with pytest.raises(ConfigurationError, match="not valid YAML"):
            load_configuration("a: [", Registry())
        with pytest.raises(ConfigurationError, match="the configuration: 'hello' is not an object"):
            load_configuration("hello", Registry())

    def test_other_api_version_is_refused(self):
        with pytest.raises(ConfigurationError, match="apiVersion: 'v2' is not one of "):
            load_configuration({**HEAD, "apiVersion": "v2"}, Registry())

    def test_custom_plugin_accepts_any_arguments(self):
        registry = Registry()
        registry.register(type("Mine", (Plugin,), {"filter": lambda *_: None}))
        profile = {
            "plugins": {"filter": {"enabled": [{"name": "Mine"}]}},
            "pluginConfig": [{"name": "Mine", "args": {"x": [1]}}],
        }
        assert load_configuration({**HEAD, "profiles": [profile]}, registry).profiles[
            0
        ].arguments == {"Mine": {"x": [1]}}

    @pytest.mark.parametrize(
        ("path", "words"),
        [
            (
                "nowhere.at.all:Mine",
                "there is no plugin 'nowhere.at.all:Mine': No module named 'nowhere'",
            ),
            ("json:Mine", "there is no plugin 'json:Mine': module 'json' has no attribute 'Mine'"),
            ("json:JSONDecoder", "'json:JSONDecoder' is not a plugin class: derive it from"),
        ],
    )
    def test_invalid_import_path_is_refused(self, path, words):
        with pytest.raises(ConfigurationError) as refusal:
            profiled({"filter": {"enabled": [{"name": path}]}})
        assert words in str(refusal.value)


class TestConfigMap:
    def write(self, cluster, text):
        metadata = {"name": "kube-scheduler", "namespace": "kube-system"}
        obj = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {"config.yaml": text},
        }
        cluster.ask(cluster.api.apply(CONFIG_MAPS, obj, field_manager="test"))
        cluster.advance()

    TEXT = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
- schedulerName: other
"""

    def test_config_map_changes_are_applied(self, cluster):
        cluster.nodes(2)
        self.write(
            cluster, self.TEXT.replace("- plug", "- schedulerName: default-scheduler\n  plug")
        )
        assert {cluster.pod(f"p{number}", cpu="500m") for number in range(4)} == {
            cluster.where("p0")
        }
        assert cluster.pod("q", schedulerName="other", cpu="500m") != cluster.where("p0")
        cluster.ask(cluster.api.delete(CONFIG_MAPS, "kube-scheduler", "kube-system"))
        cluster.advance()
        assert cluster.pod("r", cpu="500m") != cluster.where("p0")
        assert cluster.pod("s", schedulerName="other") is None

    def test_pods_of_new_profile_are_scheduled(self, cluster):
        cluster.nodes(1)
        assert cluster.pod(schedulerName="other") is None
        self.write(
            cluster, self.TEXT.replace("- plug", "- schedulerName: default-scheduler\n  plug")
        )
        assert cluster.where() == "n1"

    def test_invalid_change_keeps_last_configuration(self, cluster):
        cluster.nodes(2)
        self.write(
            cluster, self.TEXT.replace("- plug", "- schedulerName: default-scheduler\n  plug")
        )
        self.write(
            cluster,
            (
                "apiVersion: kubescheduler.config.k8s.io/v1\nkind: "
                "KubeSchedulerConfiguration\nprofles: []\n"
            ),
        )
        assert {cluster.pod(f"p{number}", cpu="500m") for number in range(4)} == {
            cluster.where("p0")
        }
        (event,) = (
            one
            for one in cluster.ask(cluster.api.list(EVENTS)).items
            if one["reason"] == "InvalidConfiguration"
        )
        assert event["message"] == (
            "configuration refused, keeping the last valid one: profles: there is no "
            "such field (did you mean 'profiles'?)"
        )
