"""Adapters: the session stores of agent frameworks, each over a store of ours.

Each module needs its framework, which is an extra; importing this package needs none.
"""
