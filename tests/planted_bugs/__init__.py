"""Bugs that are planted in the package on purpose, to measure what a run finds.

Each module holds the bugs of one system in a table: storage, data_path, harness, scheduler, workflow
and controllers. They are designed from the documents and issue trackers of the systems under test,
never from what a check reads. `planting` switches a bug on; `table` plays megatests with each.
"""
