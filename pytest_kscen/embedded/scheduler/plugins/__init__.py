"""Default plugins of kube-scheduler 1.36, with its formulas and messages.

One module per plugin or group of related plugins. Neither the queue nor the scheduling cycle may be
imported here. Inside:

    node_filters, node_affinity, taint_toleration, node_resources, image_locality
    inter_pod_affinity, pod_topology_spread    with pod_counts, topology_counts and their terms
    volume_binding, volume_limits, volume_zone
    default_preemption, queueing_and_binding, not_simulated
"""
