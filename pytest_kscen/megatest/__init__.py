"""Volume churn: the actors that make volumes, watch them and take them away.

Only the API, the clock and chance may enter.
"""
