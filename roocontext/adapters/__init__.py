"""Adapters: the session stores of agent frameworks, each over a store of roocontext.

Each module needs its framework, which is an extra; importing this package needs none.
"""
