"""Each adapter beside the durable store of its framework, on the same engine."""
