import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { openPage } from "../driver/browser.js";
import type { runCase } from "./support/page-cases.js";
import { type Server, startServer } from "./support/server.js";
import { storeCases } from "./support/store-cases.js";

// client.sh says it where there is no Chromium.
const skip = !process.env.EDGE_CHROMIUM;

let server: Server;
let folder: string;
let chromium: Awaited<ReturnType<typeof openPage>>;

before(async () => {
  if (skip) return;
  server = await startServer();
  folder = await mkdtemp(join(tmpdir(), "edge-idempotency-"));
  chromium = await openPage(folder);
});

after(async () => {
  if (skip) return;
  await chromium.context.close();
  await server.stop();
  await rm(folder, { recursive: true });
});

async function runInPage(name: string): Promise<void> {
  const given: Parameters<typeof runCase> = [name, server.base];
  const module = await chromium.page.evaluateHandle<typeof import("./support/page-cases.js")>(
    'import("/tests/support/page-cases.js")',
  );
  await module.evaluate((cases, [name, base]) => cases.runCase(name, base), given);
}

for (const { name } of storeCases) {
  test(`Chromium: ${name}`, { skip, timeout: 120_000 }, () => runInPage(name));
}

for (const name of [
  "a damaged record",
  "a database that cannot be opened",
  "a database of an earlier version, without owners",
  "a database that is deleted meanwhile",
  "no header of the attempt",
  "a redirect is not followed",
]) {
  test(`Chromium: ${name}`, { skip, timeout: 120_000 }, () => runInPage(name));
}
