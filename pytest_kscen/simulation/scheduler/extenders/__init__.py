"""Extenders: somebody outside who is asked over HTTP between the plugins. What they are to the scheduler is in
`framework.extending`; here is the one that kube-scheduler has, its wire format and its call.
"""
