"""Run Chaos Mesh workflows on any cluster. Must not import the simulation, the clusters, or pytest.

files, expectations   a Workflow as a file, and the expectations beside it
validation/           errors in a Workflow or Schedule, found before anything runs
engine/               the running engine: trees of nodes, transitions, actors, repository
tables/               one state machine per node type, as tables
schedules, status_checks   the two other controllers of Chaos Mesh
probes/, expressions/ probes of a node or workflow, and the branch language
story, telemetry      phases and messages from the journal; metrics and traces
"""
