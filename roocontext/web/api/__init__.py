"""The HTTP API, version 1: `/api/v1`."""
