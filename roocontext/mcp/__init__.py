"""An MCP server over a store: agents and editors list, search and read its sessions.

`roocontext mcp` runs it. No other module imports this package, because the SDK takes half a second
to load.
"""
