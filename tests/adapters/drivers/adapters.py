"""The frameworks' drivers over our adapters: writing by the framework, the rest by our store."""

from adapters.drivers import openai_agents
from roocontext import AsyncStore, NewMessage, Plan, Store
from roocontext.adapters.openai_agents import RooContextSession
from roocontext.log.entries import Kind
from roocontext.log.readings.openai_responses import items_of
from roocontext.testing import History, Receipt, View


class OpenAIAgents(openai_agents.Items):
    """`RooContextSession` for the SDK; rewinds, summaries, forks and audits as any session has."""

    lacks = {}

    def __init__(self, place):
        super().__init__(place)
        self._store = Store.open(place)
        self._async = self.run(AsyncStore.open(place))

    def made(self, session):
        self._ours = self._store.open_session(session)
        return RooContextSession(session, self._async)

    def view(self):
        items = self.run(self._session.get_items())
        return View(self._ours.head_seq(), tuple(map(openai_agents.to_message, items)))

    def history(self):
        written = [entry.content for entry in self._ours.audit() if entry.kind is Kind.MESSAGE]
        items = (item for content in written for item in items_of(content))
        return History(tuple(map(openai_agents.to_message, items)))

    def rewind(self, to):
        return Receipt(self._ours.rewind(to).head_seq)

    def condense(self, plan):
        view = self._ours.view()
        summary = NewMessage(
            "user", [{"role": "user", "content": plan.summary}], "openai-responses"
        )
        hidden = [message.seq for message in view.messages[: plan.first]]
        self._ours.commit(Plan.condense(view, hidden, summary))
        return Receipt(self._ours.head_seq())

    def fork(self, copy):
        self._ours.fork(copy.at, session_id=copy.session)

    def close(self):
        self.run(self._async.close())
        self._store.close()
        super().close()
