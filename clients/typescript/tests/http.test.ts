import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { FileStore } from "edge-idempotency-client/node";
import { httpCases } from "./support/http-cases.js";
import { closedUrl, type Server, startServer } from "./support/server.js";

let server: Server;

before(async () => {
  server = await startServer();
});

after(() => server.stop());

for (const { name, run } of httpCases) {
  test(`HTTP: ${name}`, async () => {
    const folder = await mkdtemp(join(tmpdir(), "edge-idempotency-"));
    try {
      await run({ open: () => new FileStore(folder), base: server.base, closed: await closedUrl(), browser: false });
    } finally {
      await rm(folder, { recursive: true });
    }
  });
}
