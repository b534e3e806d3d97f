"""How many examples a property test looks at: few each day, many in the long run."""

import os


def examples(everyday: int) -> int:
    """What finds faults in seconds, multiplied by ROOCONTEXT_TORTURE in the long run."""
    return everyday * int(os.environ.get("ROOCONTEXT_TORTURE") or "1")
