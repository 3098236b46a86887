"""Shapes compiled into closures: decoding, pruning, defaulting, validating.

What a kind means may not enter here.
"""
