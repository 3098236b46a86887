"""CustomResourceDefinitions: judged, established, served and taken away.

What a custom object looks like is `schema`'s.
"""
