/* A coding agent in TypeScript, over the HTTP API of `roocontext serve --allow-write`.
 *
 *   node dist/agent.js SESSION PROMPT...      say something; without a prompt, continue after a crash
 *   node dist/agent.js SESSION --condense     replace old messages with a summary
 *   node dist/agent.js SESSION --rewind SEQ   go back to an entry; --undo takes it back
 *
 * Every step is recorded before the next one begins, so the agent may be killed at any moment. The
 * reply and the request pass through as texts: JSON.parse would change large integers.
 */
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

const SERVER = process.env.ROOCONTEXT_URL ?? "http://127.0.0.1:8765";
const TOKEN = process.env.ROOCONTEXT_TOKEN ?? "";
const PROVIDER = process.env.ANTHROPIC_BASE_URL ?? "https://api.anthropic.com";
const MODEL = process.env.MODEL ?? "claude-sonnet-4-5";
const SYSTEM = "You are a coding agent. Use the tool, then answer briefly.";
const TOOLS = [
  {
    name: "run",
    description: "Run a shell command in the workspace; returns its output.",
    input_schema: {
      type: "object",
      properties: { command: { type: "string" } },
      required: ["command"],
    },
  },
];

interface Call { seq: number; block: number; name: string; input_json: string; begun: boolean }
interface Pending { waits_for: "user" | "tools" | "model"; pending: Call[] }
interface Request { body_json: string; repairs: unknown; thinking_off: boolean }
interface Head { head_seq: number }
interface Gauge { tokens: number; limit: number | null }
interface Message { content: string | { text?: string }[] }

class Problem extends Error {}

/** Ask the server. Every request here may be repeated: a lost answer is asked for again. */
async function ask<T>(
  method: string, path: string, document?: object, headers: Record<string, string> = {},
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      const response = await fetch(`${SERVER}/api/v1${path}`, {
        method,
        headers: {
          authorization: `Bearer ${TOKEN}`,
          ...(document && { "content-type": "application/json" }),
          ...headers,
        },
        body: document && JSON.stringify(document),
      });
      const answer = await response.json();
      if (response.ok) return answer as T;
      if (response.status !== 503 || attempt === 5) throw new Problem(answer.detail);
    } catch (error) {
      if (error instanceof Problem || attempt === 5) throw error;
    }
    await sleep(200 * attempt);
  }
}

class Session {
  constructor(readonly id: string) {}

  get<T>(path: string): Promise<T> {
    return ask("GET", `/sessions/${encodeURIComponent(this.id)}${path}`);
  }

  post<T>(path: string, document: object, headers?: Record<string, string>): Promise<T> {
    return ask("POST", `/sessions/${encodeURIComponent(this.id)}${path}`, document, headers);
  }

  /** A change of the view, which is refused if the session has another version by then. */
  async change(path: string, document: object): Promise<void> {
    const { head_seq } = await this.get<Head>("/head");
    await this.post(path, document, { "if-match": `"${head_seq}"` });
  }
}

/** The model's turn: keep the context small, ask, record the reply. */
async function askModel(chat: Session): Promise<void> {
  const gauge = await chat.get<Gauge>(`/context?model=${MODEL}`);
  if (gauge.limit !== null && gauge.tokens > 0.8 * gauge.limit) {
    await chat.change("/compactions", { aim: "manage", model: MODEL });
  }
  const asked = { form: "anthropic", model: MODEL, system: SYSTEM, tools: TOOLS };
  const { body_json, repairs, thinking_off, ...request } = await chat.post<Request>(
    "/request?content=text", asked,
  );
  const response = await fetch(`${PROVIDER}/v1/messages`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "anthropic-version": "2023-06-01",
      "x-api-key": process.env.ANTHROPIC_API_KEY ?? "",
    },
    body: `{"model":${JSON.stringify(MODEL)},"max_tokens":4096,${body_json.slice(1)}`,
  });
  const reply = await response.text();
  if (!response.ok) throw new Error(`The model answered ${response.status}.`);
  await chat.post("/record", { reply_json: reply, request });
}

/** Run a tool. If it had begun before a crash it may have run: the model decides what to do. */
async function runTool(chat: Session, call: Call): Promise<void> {
  const place = { seq: call.seq, block: call.block };
  if (call.begun) {
    const output = "The agent was stopped while this ran. It may have run: look before you repeat.";
    await chat.post("/answer", { ...place, output, is_error: true });
    return;
  }
  await chat.post("/begin", place);
  const { command } = JSON.parse(call.input_json) as { command: string };
  const [output, failed] = await new Promise<[string, boolean]>((done) =>
    execFile("sh", ["-c", command], (error, stdout, stderr) => done([stdout + stderr, !!error])),
  );
  await chat.post("/answer", { ...place, output, is_error: failed });
}

async function main([id, ...words]: string[]): Promise<void> {
  if (!id) throw new Error("Usage: node dist/agent.js SESSION [PROMPT... | --condense | ...]");
  const chat = new Session(id);
  await ask("PUT", `/sessions/${encodeURIComponent(id)}`, { metadata: { agent: "typescript" } });
  if (words[0] === "--condense") return chat.change("/compactions", { aim: "condense", model: MODEL });
  if (words[0] === "--rewind") return chat.change("/rewinds", { to: Number(words[1]) });
  if (words[0] === "--undo") return chat.change("/undo", {});
  let prompt = words.join(" ");
  for (;;) {
    const { waits_for, pending } = await chat.get<Pending>("/pending?content=text");
    if (waits_for === "model") await askModel(chat);
    else if (waits_for === "tools") for (const call of pending) await runTool(chat, call);
    else if (!prompt) break;
    else {
      const key = { "idempotency-key": `"${randomUUID()}"` };
      await chat.post("/entries", { role: "user", content: prompt }, key);
      prompt = "";
    }
  }
  const { messages } = await chat.get<{ messages: Message[] }>("/view?last=1");
  for (const { content } of messages) {
    console.log(typeof content === "string" ? content : content.map((part) => part.text ?? "").join(""));
  }
}

await main(process.argv.slice(2));
