"""What a check reads first: the head and what belongs to it in one statement, the calls in another.

Between a client and a distant server, and between the nodes of a cluster, each statement takes a
message there and back. So everything that is one row is joined to the session's own.
"""
