// The built page, served by this machine and opened in a headless Chromium; and the command that it is compared with.
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";

const { EDGE_PLAYGROUND: FILES, EDGE_COMMAND: COMMAND, EDGE_CHROMIUM_LAUNCHER: LAUNCHER, EDGE_MODULES: MODULES } = process.env;
const { chromium } = createRequire(`${MODULES}/`)("playwright-core");
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".json": "application/json", ".wasm": "application/wasm" };

/** Serves the page. */
export async function serve() {
  const server = createServer(async ({ url }, reply) => {
    const path = normalize(new URL(url, "http://page").pathname);
    try {
      const body = await readFile(join(FILES, path.endsWith("/") ? `${path}index.html` : path));
      reply.writeHead(200, { "content-type": TYPES[extname(path)] ?? TYPES[".html"] }).end(body);
    } catch {
      reply.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { origin: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

/** A browser whose pages tell what went wrong in them, and what they requested. */
export async function openBrowser() {
  const folder = await mkdtemp(join(tmpdir(), "playground-"));
  const context = await chromium.launchPersistentContext(join(folder, "profile"), {
    executablePath: LAUNCHER,
    env: { ...process.env, EDGE_CHROMIUM_LOCK: join(folder, "lock") },
    // The page is ours, and root cannot have a sandbox.
    chromiumSandbox: false,
  });
  const faults = [];
  const requests = [];
  context.on("request", (request) => requests.push(request.url()));
  context.on("weberror", (error) => faults.push(String(error.error())));
  context.on("console", (message) => message.type() === "error" && faults.push(`${message.text()} ${message.location().url}`));
  const close = async () => {
    await context.close();
    await rm(folder, { recursive: true, force: true });
  };
  return { context, faults, requests, close };
}

/** What the page shows when it has answered what is in its fields. */
export async function shown(page) {
  await page.locator("#verdict[aria-busy=false]").waitFor({ state: "attached" });
  return page.evaluate(() => {
    const text = (id) => document.getElementById(id).textContent;
    return { check: text("check"), verdict: text("verdict"), state: text("verdict-state"), policy: text("policy-state") };
  });
}

/** Fills the fields. */
export async function fill(page, { policy, request, token = "" }) {
  await page.locator("#policy").fill(policy);
  await page.locator("#request").fill(request);
  await page.locator("#token").fill(token);
}

function run(folder, options) {
  return new Promise((resolve) => {
    // The page has no environment either.
    execFile(COMMAND, options, { cwd: folder, env: {}, maxBuffer: 1 << 26 }, (error, stdout, stderr) => {
      resolve({ status: error?.code ?? 0, stdout: stdout.trim(), stderr: stderr.trim() });
    });
  });
}

/** What the command prints about a policy and a request. */
export async function printed({ policy, request, token = "" }) {
  const folder = await mkdtemp(join(tmpdir(), "playground-"));
  await writeFile(join(folder, "policy.json"), policy);
  await writeFile(join(folder, "request.json"), request.trim());
  const caller = token === "" ? [] : ["--jwt", token];
  const options = request.trim().startsWith("{") ? ["--request", "request.json"] : [...caller, "--curl", request];
  const [checked, explained] = [
    await run(folder, ["check", "policy.json"]),
    await run(folder, ["explain", "--policy", "policy.json", ...options]),
  ];
  await rm(folder, { recursive: true });
  const error = explained.stderr.split("\n").filter((line) => !line.startsWith("warning: ")).join("\n");
  return {
    check: `${checked.stderr}\n${checked.stdout}`.trim(),
    verdict: explained.stdout || error.replace(/^edge-idempotency: /, ""),
    status: explained.status,
  };
}
