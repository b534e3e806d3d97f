"""An MCP server over a store: agents and editors list, search and read its sessions.

`roocontext mcp` runs it. Nothing here is loaded by anything else, because the SDK takes half a
second to load.
"""
