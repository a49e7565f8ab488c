import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { startServer } from "./support/server.js";

// client.sh sets these.
const { EDGE_CLIENT: built = "", EDGE_CLIENT_SOURCES: sources = "", EDGE_CLIENT_TSC: tsc = "" } = process.env;
const unpacked = join(built, "build", "node_modules", "edge-idempotency-client");

/** The examples of the page. */
const examples = [...readFileSync(join(sources, "README.md"), "utf8").matchAll(/```ts\n(.*?)```/gs)].map(
  ([, code]) => code as string,
);

/** Runs with a project that has the package installed, and these files. */
function inProject(files: Record<string, string>, run: (folder: string) => Promise<void> | void): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "edge-idempotency-"));
  mkdirSync(join(folder, "node_modules"));
  cpSync(unpacked, join(folder, "node_modules", "edge-idempotency-client"), { recursive: true });
  symlinkSync(join(tsc, "..", "..", "..", "@types"), join(folder, "node_modules", "@types"));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return Promise.resolve(run(folder)).finally(() => rmSync(folder, { recursive: true }));
}

function compile(folder: string, ...options: string[]): void {
  const all = ["--strict", "--target", "es2022", "--skipLibCheck", "false", "--types", "node", ...options];
  const files = readdirSync(folder).filter((name) => name.endsWith(".ts"));
  execFileSync(process.execPath, [tsc, ...all, ...files], {
    cwd: folder,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
}

for (const resolution of [
  ["--module", "nodenext"],
  ["--module", "esnext", "--moduleResolution", "bundler"],
]) {
  test(`the example of the page compiles with ${resolution.join(" ")}`, () => {
    assert.equal(examples.length, 1);
    const files = { "package.json": '{"type": "module"}', "use.ts": examples[0] ?? "" };
    return inProject(files, (folder) => compile(folder, "--noEmit", ...resolution));
  });
}

test("the example of the page runs, with the package as it is packed", async () => {
  const server = await startServer();
  const replies = encodeURIComponent(JSON.stringify([{ status: 503 }, { status: 201, body: '{"number":1}' }]));
  const use = (examples[0] ?? "").replace("https://api.example.com/orders", `${server.base}/run/readme?replies=${replies}`);
  try {
    await inProject({ "package.json": '{"type": "module"}', "use.ts": use }, async (folder) => {
      compile(folder, "--module", "nodenext");
      const { execFile } = await import("node:child_process");
      const printed = await new Promise<string>((resolve, reject) => {
        const options = { cwd: folder, env: { ...process.env, TOKEN: "secret" } };
        execFile(process.execPath, ["use.js"], options, (error, stdout) => (error ? reject(error) : resolve(stdout)));
      });
      assert.match(printed, /^201 [0-9a-f-]{36} \{ number: 1 \}\n$/);
      assert.deepEqual(readdirSync(join(folder, "pending-orders")), []);
    });
    assert.deepEqual(
      server.received("readme").map(({ authorization, attempt }) => [authorization, attempt]),
      [
        ["Bearer secret", "1"],
        ["Bearer secret", "2"],
      ],
    );
  } finally {
    await server.stop();
  }
});

test("the package has the code, the page and the license only, and no dependencies", () => {
  assert.deepEqual(readdirSync(unpacked).sort(), ["LICENSE", "README.md", "dist", "package.json"]);
  const { version, dependencies } = JSON.parse(readFileSync(join(unpacked, "package.json"), "utf8"));
  assert.equal(dependencies, undefined);
  assert.ok(readdirSync(built).includes(`edge-idempotency-client-${version}.tgz`));
});

test("bundlers for browsers see no module of Node.js", () => {
  const files = readdirSync(join(unpacked, "dist")).filter((name) => name.endsWith(".js"));
  assert.ok(files.includes("index.js"));
  for (const name of files) assert.doesNotMatch(readFileSync(join(unpacked, "dist", name), "utf8"), /node:|\.\/node\//, name);
});

test("Node.js 18 has keys, too", async () => {
  const program = `
    delete globalThis.crypto;
    const { IdempotentClient, MemoryStore } = await import("edge-idempotency-client");
    const client = new IdempotentClient({ store: new MemoryStore(), owner: "ann", credentials: () => ({ owner: "ann" }), fetch: async () => new Response() });
    console.log((await client.fetch("http://x", { method: "POST" })).idempotency.key);`;
  const cwd = join(built, "build");
  const printed = execFileSync(process.execPath, ["--input-type=module", "-e", program], { cwd, encoding: "utf8" });
  assert.match(printed, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\n$/);
});

test("what is for tests only is not in the types", () => {
  const types = readFileSync(join(unpacked, "dist", "client.d.ts"), "utf8");
  assert.match(types, /constructor\(options: ClientOptions\);/);
  assert.doesNotMatch(types, /constructor\([^)]*platform/);
});
