// Keys, and new entries as they are written. Pages work without it.
"use strict";
(() => {
  const one = (selector) => document.querySelector(selector);
  const all = (selector) => [...document.querySelectorAll(selector)];

  // Keys
  const KEYS = {
    j: ["next entry", () => step(".entry, .event", 1)],
    k: ["entry before", () => step(".entry, .event", -1)],
    J: ["next prompt", () => step(".entry.user", 1)],
    K: ["prompt before", () => step(".entry.user", -1)],
    n: ["next match", () => step("mark", 1)],
    N: ["match before", () => step("mark", -1)],
    "[": ["earlier page", () => follow(".pager a", "←")],
    "]": ["later page", () => follow(".pager a", "→")],
    1: ["what the model sees", () => click(".tabs a:nth-child(1)")],
    2: ["live", () => click(".tabs a:nth-child(2)")],
    3: ["everything", () => click(".tabs a:nth-child(3)")],
    o: ["open or close", () => toggle()],
    e: ["export", () => follow(".facts a", "export")],
    "/": ["search", () => one('input[name="q"]')?.focus()],
    "?": ["this list", () => help()],
  };

  const click = (selector) => one(selector)?.click();
  const follow = (selector, words) =>
    all(selector).find((link) => link.textContent.includes(words))?.click();

  function step(selector, by) {
    const items = all(selector).filter((item) => item.getClientRects().length);
    if (!items.length) return;
    const here = document.activeElement?.closest?.(selector);
    let index = items.indexOf(here);
    if (index < 0) {
      index = items.findIndex((item) => item.getBoundingClientRect().top >= 0);
      index = by > 0 ? index - 1 : Math.max(index, 0);
    }
    const next = items[Math.min(Math.max(index + by, 0), items.length - 1)];
    next.tabIndex = -1;
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "start" });
  }

  function toggle() {
    const folds = document.activeElement?.querySelectorAll?.("details");
    folds?.forEach((fold) => (fold.open = !fold.open));
  }

  function element(name, text, parent) {
    const made = document.createElement(name);
    made.textContent = text;
    parent?.append(made);
    return made;
  }

  function help() {
    let dialog = one("dialog");
    if (!dialog) {
      dialog = element("dialog", "", document.body);
      dialog.setAttribute("aria-label", "Keys");
      const list = element("dl", "", dialog);
      for (const [key, [name]] of Object.entries(KEYS)) {
        element("dt", key, list);
        element("dd", name, list);
      }
      const button = element("button", "", dialog);
      const name = () => (button.textContent = keysOff() ? "Switch keys on" : "Switch keys off");
      name();
      button.addEventListener("click", () => {
        localStorage.setItem("keys", keysOff() ? "on" : "off");
        name();
      });
      element("button", "Close", dialog).addEventListener("click", () => dialog.close());
    }
    dialog.showModal();
  }

  const keysOff = () => localStorage.getItem("keys") === "off";
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
    if (event.target.closest("input, select, textarea, dialog")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const key = KEYS[event.key];
    if (!key || (keysOff() && event.key !== "?")) return;
    event.preventDefault();
    key[1]();
  });

  // What a link leads to may be in a closed fold.
  function reveal() {
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    for (let fold = target?.closest?.("details"); fold; fold = fold.parentElement.closest("details"))
      fold.open = true;
    if (target) target.scrollIntoView({ block: "start" });
  }
  addEventListener("hashchange", reveal);

  // New entries
  const list = one("ol#entries");
  const address = document.body.dataset.events;
  if (!list || !address) return;
  const ELEMENTS =
    "li article header h2 h3 a span b code p ol ul div pre details summary time table thead tbody" +
    " tr th td em strong s del ins blockquote hr br";
  const ATTRIBUTES =
    "id class href rel datetime title data-seq data-kind data-state tabindex dir open start" +
    " aria-label";
  const allowed = {
    elements: ELEMENTS.split(" ").map((name) => ({ name })),
    attributes: ATTRIBUTES.split(" "),
    dataAttributes: false,
  };
  let source = null;
  let last = null;
  let fresh = 0;
  const news = element("p", "", document.body);
  news.className = "news";
  news.setAttribute("role", "status");

  function announce(text, href) {
    news.replaceChildren();
    element("a", text, news).href = href;
  }

  function show(event) {
    if (last !== null && Number(event.lastEventId) <= last) return; // repeated after a cut
    last = Number(event.lastEventId);
    fresh += 1;
    const holder = document.createElement("ol");
    if (!holder.setHTML) return announce(`${fresh} new`, location.pathname + location.search);
    holder.setHTML(event.data, { sanitizer: allowed });
    const nearEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 200;
    const added = [...holder.children];
    list.append(...added);
    const changes = added.some((row) =>
      row.querySelector('[data-kind]:not([data-kind="message"]):not([data-kind="note"])'));
    if (changes) announce("The view changed: reload", location.pathname + location.search);
    else if (nearEnd) added.at(-1)?.scrollIntoView({ block: "end" });
    else announce(`${fresh} new`, `#${added[0]?.firstElementChild?.id ?? ""}`);
  }

  // A browser opens six connections to a server, so a page that nobody looks at keeps none.
  function listen() {
    if (document.hidden) {
      source?.close();
      source = null;
    } else if (!source) {
      const from = last === null ? address : address.replace(/after=\d+/, `after=${last}`);
      source = new EventSource(from);
      source.onmessage = show;
      source.addEventListener("end", () => {
        source.close();
        source = null;
      });
    }
  }
  document.addEventListener("visibilitychange", listen);
  listen();
})();
