"""The steps of an agent's loop: whose turn it is, and the next request."""
