// The page moves texts: the engine (worker.js) is asked what is in the fields, and what it answers is shown.

const DEBOUNCE_MS = 200;
/** After this time the engine is started anew. */
const PATIENCE_MS = 10_000;
/** The greatest length of the texts in a link. */
const LONGEST_SHARED = 4 << 20;

const element = (id) => document.getElementById(id);
const fields = { policy: element("policy"), request: element("request"), token: element("token") };
const texts = () => Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, field.value.toWellFormed()]));

/** The engine answers one question at a time; of those that come meanwhile only the last one counts. */
class Engine {
  #show;
  #worker;
  #isReady = false;
  #patience;
  /** The question that the engine has, and the one that waits. */
  #asked = null;
  #next = null;

  constructor(show) {
    this.#show = show;
    this.#start();
  }

  ask(question) {
    this.#next = question;
    this.#go();
  }

  #start() {
    this.#isReady = false;
    this.#worker = new Worker("worker.js");
    this.#worker.onmessage = ({ data }) => this.#take(data);
    this.#worker.onerror = ({ message }) => this.#fail(message ?? "it cannot be loaded");
  }

  #go() {
    if (!this.#isReady || this.#asked !== null || this.#next === null) return;
    this.#asked = this.#next;
    this.#next = null;
    this.#patience = setTimeout(() => this.#fail(`it took more than ${PATIENCE_MS / 1000} seconds`), PATIENCE_MS);
    this.#worker.postMessage(JSON.stringify(this.#asked.texts));
  }

  #take(data) {
    if (!this.#isReady) {
      this.#isReady = true;
    } else {
      clearTimeout(this.#patience);
      const question = this.#asked;
      this.#asked = null;
      this.#show(question, data === null ? { error: "policy and request are too long: the page takes 4 MiB" } : JSON.parse(data));
    }
    this.#go();
  }

  #fail(why) {
    clearTimeout(this.#patience);
    this.#worker.terminate();
    const question = this.#asked;
    const wasReady = this.#isReady;
    this.#asked = null;
    this.#show(question, { error: `the engine of this page failed: ${why}` });
    // An engine that does not even start would fail for ever.
    if (wasReady) {
      this.#start();
    }
  }
}

const VERDICTS = {
  forward: ["good", "Forwarded"],
  shadow: ["mixed", "Forwarded, in shadow mode"],
  acknowledge: ["good", "Acknowledged"],
  reject: ["bad", "Refused"],
};
const POLICIES = {
  error: ["bad", "The filter does not start with this policy."],
  warning: ["mixed", "The filter starts with this policy, with warnings."],
  note: ["good", "The filter starts with this policy."],
  fine: ["good", "The filter starts with this policy."],
};

let report = {};
/** The number of the last change in a field. */
let changes = 0;

function show(question, answer) {
  report = answer;
  // Nothing that the page shows is the answer to what is in the fields now, if they have changed since.
  element("verdict").setAttribute("aria-busy", String(question !== null && question.change !== changes));
  const [kind, state] = POLICIES[report.policy] ?? ["", ""];
  tell(element("policy-state"), kind, state);
  fields.policy.setAttribute("aria-invalid", String(report.policy === "error"));
  element("check").textContent = report.check ?? "";
  element("check-details").hidden = !report.check;
  element("findings").replaceChildren(...(report.findings ?? []).filter(({ severity }) => severity !== "note").map(finding));

  const isWrong = report.policy === "error";
  const [tone, word] = VERDICTS[report.action] ?? ["bad", isWrong ? "No verdict: correct the policy first." : "No verdict"];
  const text = report.explain ?? report.error;
  // What the key has become stands first.
  const [, key] = /^the backend gets:\n(?: .*\n)*? {2}idempotency-key: (.+)$/m.exec(report.explain ?? "") ?? [];
  tell(element("verdict-state"), tone, key ? `${word}, with the key ${key}` : word);
  element("verdict").replaceChildren(...(text ? text.split("\n").map(line) : []));
  fields.request.setAttribute("aria-invalid", String(Boolean(report.error)));
  element("to-document").disabled = !report.document;
}

function tell(place, kind, text) {
  if (place.textContent !== text) place.textContent = text;
  place.className = `state ${kind}`;
}

/** A line of the verdict. The text stays as it is, and looks like what it is. */
function line(text, index, all) {
  const span = document.createElement("span");
  // The name of a step stands in the first ten columns.
  const [, name] = /^([a-z]+) +$/.exec(text.slice(0, 10)) ?? [];
  if (index === 0 && report.explain) {
    span.className = `title ${VERDICTS[report.action][0]}`;
  } else if (name) {
    span.className = "step";
    const bold = document.createElement("b");
    bold.textContent = name;
    const isRefused = /^[a-z]+ +(WOULD BE )?REFUSED HERE\./.test(text);
    if (isRefused) span.classList.add(text.includes("WOULD BE") ? "mixed" : "bad");
    span.append(bold, text.slice(name.length));
  } else if (text.startsWith("            ")) {
    span.className = "detail";
  } else if (text.startsWith("  ")) {
    span.className = "item";
  } else if (text.endsWith(":")) {
    span.className = "title";
  }
  if (!name) span.textContent = text;
  if (index < all.length - 1) span.append("\n");
  return span;
}

/** A finding in the policy; a click selects its place. */
function finding({ severity, message, line, column, end_line, end_column }) {
  const place = document.createElement("b");
  place.textContent = `line ${line}, column ${column}`;
  const button = document.createElement("button");
  button.type = "button";
  button.className = severity === "error" ? "bad" : "mixed";
  button.append(`${severity}, `, place, `: ${message}`);
  button.addEventListener("click", () => {
    const lines = fields.policy.value.split("\n");
    // The engine counts characters, a text area UTF-16 units.
    const at = (line, column) =>
      lines.slice(0, line - 1).join("\n").length + (line > 1) + [...(lines[line - 1] ?? "")].slice(0, column - 1).join("").length;
    fields.policy.focus();
    fields.policy.setSelectionRange(at(line, column), at(end_line, end_column));
    const height = fields.policy.scrollHeight / lines.length;
    fields.policy.scrollTop = (line - 4) * height;
  });
  const item = document.createElement("li");
  item.append(button);
  return item;
}

/** Names of headers that hold somebody's credentials. */
const CREDENTIALS = /authorization|cookie|token|secret|password|api-?key/i;
/** What may be a credential in a curl command, whatever option it stands in. */
const IN_COMMANDS = new RegExp(`${CREDENTIALS.source}|bearer|(^|\\s)-[a-z]*[ube]|--(user|proxy-user|pass|cert)|://[^\\s/]*@`, "i");

/** The texts of a link, without credentials, and what is told about them. */
function withoutCredentials({ policy, request, token }) {
  const isDocument = request.trimStart().startsWith("{");
  const isToken = token.trim() !== "" && !token.trimStart().startsWith("{");
  if (!isDocument && !isToken && !IN_COMMANDS.test(request)) return [{ policy, request, token }, ""];
  let document;
  try {
    document = JSON.parse(isDocument ? request : (report.document ?? ""));
  } catch {
    return [{ policy, request: "", token: "" }, "The link has no request: it cannot be read, and may hold a token."];
  }
  const headers = Array.isArray(document.headers) ? document.headers : [];
  const isCredential = (header) => Array.isArray(header) && CREDENTIALS.test(header[0]);
  const others = headers.filter((header) => !isCredential(header));
  if (isDocument && others.length === headers.length) return [{ policy, request, token: "" }, ""];
  document.headers = others;
  const names = headers.filter(isCredential).map(([name]) => name);
  const left = names.length > 0 ? `It is without ${names.join(", ")}. ` : "";
  const form = isDocument ? "" : "The command is shared as a request document, with the claims of the token. ";
  return [{ policy, request: JSON.stringify(document, null, 2), token: "" }, (left + form).trim()];
}

async function through(stream, bytes, limit) {
  const parts = [];
  let length = 0;
  for await (const part of new Blob([bytes]).stream().pipeThrough(stream)) {
    length += part.length;
    if (length > limit) throw new Error("too long");
    parts.push(part);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

async function packed(state) {
  const bytes = await through(new CompressionStream("deflate-raw"), new TextEncoder().encode(JSON.stringify(state)), LONGEST_SHARED);
  const letters = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function unpacked(text) {
  const letters = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = await through(new DecompressionStream("deflate-raw"), Uint8Array.from(letters, (letter) => letter.charCodeAt(0)), LONGEST_SHARED);
  return JSON.parse(new TextDecoder().decode(bytes));
}

async function share() {
  const all = texts();
  const [state, told] = element("with-credentials").checked ? [all, ""] : withoutCredentials(all);
  const url = new URL(location.href);
  url.hash = `s=${await packed(state)}`;
  history.replaceState(null, "", url);
  element("link").value = url.href;
  element("link-field").hidden = false;
  let copied = "The link is in the address bar, and below.";
  try {
    await navigator.clipboard.writeText(url.href);
    copied = "The link is copied.";
  } catch {
    // Pages without TLS have no clipboard, and people can refuse it.
  }
  const inPolicy = /"allow_inline_secrets"\s*:\s*true/.test(state.policy) ? "The policy has secrets in it: are they made up?" : "";
  element("share-state").textContent = [copied, told, inPolicy].filter(Boolean).join(" ");
}

/** Fills the fields from the link, if it has something for them. */
async function restore() {
  const [, text] = /^#s=(.+)$/.exec(location.hash) ?? [];
  if (!text) return false;
  try {
    const state = await unpacked(text);
    for (const [name, field] of Object.entries(fields)) field.value = typeof state[name] === "string" ? state[name] : "";
    element("example").value = "";
    changed();
    ask();
  } catch {
    element("share-state").textContent = "The link cannot be read: is it complete?";
    return false;
  }
  return true;
}

const engine = new Engine(show);
const ask = () => engine.ask({ change: changes, texts: { ...texts(), now_unix_ms: Date.now() } });

function changed() {
  changes += 1;
  element("verdict").setAttribute("aria-busy", "true");
  // The link that was made holds other texts.
  element("link-field").hidden = true;
  element("share-state").textContent = "";
}

/** The address is that of the page again, and of no texts. */
const leaveLink = () => history.replaceState(null, "", location.pathname);

let waiting;
for (const field of Object.values(fields)) {
  field.addEventListener("input", () => {
    changed();
    leaveLink();
    clearTimeout(waiting);
    waiting = setTimeout(ask, DEBOUNCE_MS);
  });
}

const examples = await (await fetch("examples.json")).json();
element("example").append(...examples.map(({ name }, index) => new Option(name, String(index))));

async function choose(index) {
  const { policy, request, token } = examples[index];
  changed();
  const change = changes;
  const text = await (await fetch(`policies/${policy}`)).text();
  // Somebody was faster than the file.
  if (change !== changes) return;
  fields.policy.value = text;
  fields.request.value = request.join("\n");
  fields.token.value = token;
  element("example").value = String(index);
  ask();
}

element("example").addEventListener("change", async ({ target }) => {
  if (target.value === "") return;
  leaveLink();
  await choose(Number(target.value));
});
element("share").addEventListener("click", share);
element("to-document").addEventListener("click", () => {
  fields.request.value = report.document;
  fields.token.value = "";
  changed();
  leaveLink();
  ask();
});
addEventListener("hashchange", restore);

if (!(await restore())) {
  // A link that cannot be read stays told beside the example.
  const told = element("share-state").textContent;
  await choose(0);
  element("share-state").textContent = told;
}
