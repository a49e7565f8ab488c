import assert from "node:assert/strict";
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { closedUrl, type Reply, type Server, startServer } from "./support/server.js";

interface Message {
  readonly event: string;
  readonly id: string | null;
  readonly key: string;
  readonly status?: number;
  readonly body?: string;
  readonly error?: string;
  readonly attempts: number;
}

let server: Server;
let folder: string;

before(async () => {
  server = await startServer();
  folder = mkdtempSync(join(tmpdir(), "edge-idempotency-"));
});

after(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
});

// A driver that hangs must not hang the tests.
const LIMIT = 120_000;

const SETTINGS = {
  owner: "ann",
  token: "secret",
  base_ms: 2,
  cap_ms: 20,
  attempts: 4,
  attempt_timeout_ms: 10_000,
  budget_ms: 20_000,
  max_retry_after_ms: 2000,
  concurrency: 64,
  resume: false,
};

/** A driver in a process group of its own. */
class Running {
  readonly messages: Message[] = [];
  readonly #process: ChildProcessWithoutNullStreams;
  readonly ended: Promise<number | null>;

  constructor(program: string, settings: object) {
    const path = join(process.env.EDGE_CLIENT ?? "", program);
    this.#process = spawn(path, [JSON.stringify({ ...SETTINGS, ...settings })], { detached: true });
    this.#process.stderr.pipe(process.stderr);
    createInterface({ input: this.#process.stdout }).on("line", (line) => this.messages.push(JSON.parse(line)));
    this.ended = new Promise((resolve) => this.#process.on("close", resolve));
  }

  send(id: string, url: string, rest: object = {}): void {
    const intent = { id, method: "POST", url, body: JSON.stringify({ intent: id }), abort_after_ms: null, ...rest };
    this.#process.stdin.write(`${JSON.stringify(intent)}\n`);
  }

  /** Ends the input, and resolves with the status when the driver has ended. */
  async finish(): Promise<number | null> {
    this.#process.stdin.end();
    return this.ended;
  }

  /** kill -9 of the process group. */
  async kill(): Promise<void> {
    process.kill(-(this.#process.pid as number), "SIGKILL");
    await this.ended;
  }
}

const url = (name: string, ...replies: Reply[]) =>
  `${server.base}/run/${name}?replies=${encodeURIComponent(JSON.stringify(replies))}`;

async function until(reached: () => boolean): Promise<void> {
  while (!reached()) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** How many processes have this text in their command lines. */
function processes(text: string): number {
  const isOne = (pid: string) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(text);
    } catch {
      return false;
    }
  };
  return readdirSync("/proc").filter((name) => /^\d+$/.test(name) && isOne(name)).length;
}

for (const program of ["driver", "driver-chromium"]) {
  // client.sh says it where there is no Chromium.
  const skip = program === "driver-chromium" && !process.env.EDGE_CHROMIUM;

  test(`${program}: tells answers and errors, and ends with its input`, { skip, timeout: LIMIT }, async () => {
    const running = new Running(program, { store: join(folder, `${program}-protocol`) });
    const name = (id: string) => `${program}-${id}`;
    running.send("answered", url(name("answered"), { status: 503 }, { fault: "cut" }, { status: 201, body: "done" }));
    running.send("refused", url(name("refused"), { status: 400 }));
    running.send("unanswered", await closedUrl());
    running.send("aborted", url(name("aborted"), { fault: "hang" }), { abort_after_ms: 200 });
    running.send("wrong", "/relative", { method: "POST" });
    assert.equal(await running.finish(), 0);
    const told = new Map(running.messages.map((message) => [message.id, message]));
    assert.equal(running.messages.length, 5);
    const { key, ...answered } = told.get("answered") as Message;
    assert.deepEqual(answered, {
      event: "answer",
      id: "answered",
      status: 201,
      body: "done",
      replayed: false,
      attempts: 3,
      operation_id: null,
      code: null,
      retry: null,
    });
    assert.deepEqual(
      server.received(name("answered")).map((received) => [received.key, received.authorization, received.body]),
      Array(3).fill([key, "Bearer secret", '{"intent":"answered"}']),
    );
    assert.equal(told.get("refused")?.status, 400);
    assert.deepEqual([told.get("unanswered")?.error, told.get("unanswered")?.attempts], ["no_answer", 4]);
    assert.equal(told.get("aborted")?.error, "aborted");
    // A page resolves a relative URL, and its origin does not answer POST with what an API would.
    if (program === "driver") assert.equal(told.get("wrong")?.error, "other");
  });

  test(`${program}: after kill -9 it sends what was under way, with the same keys`, { skip, timeout: LIMIT }, async () => {
    const store = join(folder, `${program}-killed`);
    const names = [1, 2, 3, 4, 5].map((at) => `${program}-killed-${at}`);
    const first = new Running(program, { store });
    for (const name of names) first.send(name, url(name, { fault: "hang" }, { status: 200, body: name }));
    await until(() => names.every((name) => server.received(name).length === 1));
    if (program === "driver-chromium") assert.ok(processes(store) > 1);
    await first.kill();

    // Another user logs in: in the browser it is the same origin.
    const other = new Running(program, { store, resume: true, owner: "bob", token: "of Bob" });
    assert.equal(await other.finish(), 0);
    assert.deepEqual(
      other.messages.map(({ error }) => error),
      names.map(() => "other_owner"),
    );

    const second = new Running(program, { store, resume: true });
    assert.equal(await second.finish(), 0);
    assert.deepEqual(
      second.messages.map(({ id, status, body }) => [id, status, body]).sort(),
      names.map((name) => [null, 200, name]),
    );
    for (const name of names) {
      const keys = server.received(name).map(({ key }) => key);
      assert.equal(keys.length, 2);
      assert.equal(keys[0], keys[1]);
    }
    await until(() => processes(store) === 0);
  });

  test(`${program}: after kill -9 nothing runs on`, { skip, timeout: LIMIT }, async () => {
    const store = join(folder, `${program}-gone`);
    const running = new Running(program, { store });
    const name = `${program}-gone`;
    running.send("1", url(name, { fault: "hang" }));
    await until(() => server.received(name).length === 1);
    await running.kill();
    await until(() => processes(store) === 0);
  });
}
