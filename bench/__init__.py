"""The budgets of the store, each as a ratio to a floor that is measured beside it in the same run.

`python -m bench` prints them all. A time says little on another machine and a fsync's time changes
within minutes on the same one, so a measured operation and its floor take turns in small batches.
"""
