import { mkdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type BrowserContext, chromium, type Page } from "playwright-core";

/** The origin of the page. No server is there: Playwright answers its requests, so the origin and its IndexedDB are always the same. */
const ORIGIN = "http://app.localhost:18080";

/** An empty page that imports the client by its name, as pages with a bundler do. */
const PAGE = `<!doctype html><meta charset="utf-8"><title>client</title>
<script type="importmap">{"imports": {"edge-idempotency-client": "/node_modules/edge-idempotency-client/dist/index.js"}}</script>`;

/**
 * Starts Chromium with this folder as profile, and opens a page that can import the modules of the folder build/ by their paths. It waits until
 * an earlier Chromium with this profile has ended.
 */
export async function openPage(folder: string): Promise<{ context: BrowserContext; page: Page }> {
  const { EDGE_CHROMIUM_LAUNCHER } = process.env;
  if (!EDGE_CHROMIUM_LAUNCHER)
    throw new Error("EDGE_CHROMIUM_LAUNCHER is not set; start target/clients/typescript/driver-chromium");
  mkdirSync(folder, { recursive: true });
  const context = await chromium.launchPersistentContext(join(folder, "profile"), {
    executablePath: EDGE_CHROMIUM_LAUNCHER,
    env: { ...process.env, EDGE_CHROMIUM_LOCK: join(folder, "lock") } as Record<string, string>,
    // The page and what it loads are ours, and root cannot have a sandbox.
    chromiumSandbox: false,
  });
  await context.route(`${ORIGIN}/**`, async (route) => {
    const { pathname } = new URL(route.request().url());
    if (!pathname.endsWith(".js")) return route.fulfill({ contentType: "text/html", body: PAGE });
    const body = await readFile(new URL(`..${pathname}`, import.meta.url));
    return route.fulfill({ contentType: "text/javascript", body });
  });
  const page = context.pages()[0] ?? (await context.newPage());
  page.on("pageerror", (error) => process.stderr.write(`chromium: ${error}\n`));
  await page.goto(`${ORIGIN}/`);
  return { context, page };
}
