"""How the sessions of other tools are read: a module for each tool."""
