"""The web server of `roocontext serve`: pages for people and an HTTP API for agents.

No other module imports this package, except the command that starts it: starlette and uvicorn are
an extra, and take long to load.
"""
