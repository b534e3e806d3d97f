"""Idempotent retries: a writer that got no answer may repeat its request."""

from roocontext.testing.protocol import Append, Lost, StoreRefused, first_difference, says
from roocontext.testing.trial import Promise, Trial

PROMISE = Promise("idempotent retries")


@PROMISE.check()
def retries_store_once(trial: Trial) -> None:
    """The same request with the same key, sent again later, stores nothing and gets no error."""
    session = trial.new_session()
    store = trial.open(session)
    store.append(Append(says("the beginning")))
    request = Append(says("once"), expected=store.view().version, retry_key="request-1")
    store.append(request)
    store.append(Append(says("and then")))
    refusal = ""
    try:
        trial.open(session).append(request)
    except Exception as error:  # noqa: BLE001 - any error is a refusal
        refusal = f"the retry got an error ({type(error).__name__})"
    wanted = [says("the beginning"), says("once"), says("and then")]
    if difference := first_difference(wanted, trial.open(session).view().messages):
        raise Lost(f"after the retry: {difference}")
    if refusal:
        raise StoreRefused(refusal)


@PROMISE.check()
def keys_are_not_reused(trial: Trial) -> None:
    """Another message under a key that was used is refused."""
    session = trial.new_session()
    store = trial.open(session)
    store.append(Append(says("the first"), retry_key="request-1"))
    try:
        store.append(Append(says("another"), retry_key="request-1"))
    except Exception:  # noqa: BLE001 - any error is a refusal
        if difference := first_difference([says("the first")], store.view().messages):
            raise Lost(f"after the refusal: {difference}") from None
        return
    count = len(trial.open(session).view().messages)
    raise Lost(f"no error, and the session has {count} {'message' if count == 1 else 'messages'}")
