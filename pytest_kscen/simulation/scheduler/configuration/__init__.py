"""The scheduler's configuration: a KubeSchedulerConfiguration, read and checked."""
