"""Run Chaos Mesh workflows on any cluster. Must not import the simulation, the clusters, or pytest.

files, expectations   a Workflow as a file, and what is expected of it
validation/           errors in a Workflow or Schedule, found before anything runs
engine/               the running engine: trees of nodes, transitions, actors, repository
tables/               one state machine per node type, as tables
schedules, status_checks   the two other controllers of Chaos Mesh
probes/, expressions/ questions asked while a node runs, and the branch language
story, telemetry      what happened, from the journal; metrics and traces
"""
