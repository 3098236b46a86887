"""Kubernetes objects as plain JSON, and pure functions on them.

No clock, no random draws and no I/O may be imported; the only files read are the package's own
data. Inside:

  resources, errors, conditions, selectors, names, patches, quantities   the API's own rules
  quota, cron, go_values   rules of single kinds, and Go's formats for messages
  storage, virtualization, scenarios, chaos_mesh   vocabularies of custom resources
  arguments, documents   what people pass: durations, ranges, YAML files
"""
