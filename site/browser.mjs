// Looks at the built site in a real Chromium, which the reference client in TypeScript has installed, at the width of a phone and of a
// desktop. It fails if a page is wider than the window, asks another host for anything, or breaks a script, and if the search finds nothing.
//
// usage: node site/browser.mjs SITE CLIENT [PICTURES]
//   CLIENT is .tools/clients/typescript; PICTURES a folder for pictures of some pages, light and dark
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { extname, join, resolve } from 'node:path';

const [site, client, pictures] = process.argv.slice(2).map((path) => resolve(path));
const { chromium } = createRequire(join(client, 'package.json'))('playwright-core');
const TYPES = { '.html': 'text/html', '.css': 'text/css', '.js': 'text/javascript', '.svg': 'image/svg+xml', '.wasm': 'application/wasm' };
const WIDTHS = [390, 1280];
/** Pages that pictures are made of: the first, one with wide tables, a generated one, one with code and diagrams. */
const PICTURED = ['index.html', 'concept.html', 'backends.html', 'policy.html', 'command.html', 'own-api.html'];

const server = createServer((request, response) => {
  const path = decodeURIComponent(new URL(request.url, 'http://site').pathname);
  try {
    const file = join(site, path.endsWith('/') ? `${path}index.html` : path);
    response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream' }).end(readFileSync(file));
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
const origin = `http://127.0.0.1:${server.address().port}`;
const faults = [];
const profile = mkdtempSync(join(tmpdir(), 'site-'));
const browser = await chromium.launch({
  executablePath: join(client, 'chromium/chromium'),
  env: { ...process.env, LD_LIBRARY_PATH: join(client, 'chromium/lib'), HOME: profile },
  // The pages are ours, and root cannot have a sandbox.
  chromiumSandbox: false,
});

/** A window in which everything that goes wrong is a fault. */
async function open(width, scheme) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme, reducedMotion: 'reduce' });
  const page = await context.newPage();
  const fault = (what) => faults.push(`${width} px, ${page.url().replace(origin, '')}: ${what}`);
  page.on('pageerror', (error) => fault(error));
  page.on('request', (request) => {
    if (!request.url().startsWith(origin) && !request.url().startsWith('data:')) fault(`asks for ${request.url()}`);
  });
  page.on('response', (response) => response.status() >= 400 && fault(`${response.url()}: ${response.status()}`));
  return { context, page, fault };
}

async function picture(page, name) {
  if (pictures === undefined) return;
  mkdirSync(pictures, { recursive: true });
  await page.screenshot({ path: join(pictures, `${name}.png`) });
}

try {
  const pages = readdirSync(site).filter((name) => name.endsWith('.html') && !['404.html', 'toc.html'].includes(name));
  for (const width of WIDTHS) {
    const { context, page, fault } = await open(width, 'light');
    for (const name of pages) {
      await page.goto(`${origin}/${name}`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      if (wide > 0) fault(`the page is ${wide} px wider than the window`);
      if (PICTURED.includes(name)) await picture(page, `${name.replace('.html', '')}-${width}-light`);
    }
    await page.goto(`${origin}/index.html`);
    await page.keyboard.press('s');
    // It searches at each key.
    await page.locator('#mdbook-searchbar').pressSequentially('retention');
    const result = page.locator('#mdbook-searchresults li a').first();
    await result.waitFor({ timeout: 30_000 });
    await picture(page, `search-${width}-light`);
    await result.click();
    await page.waitForURL(/highlight=retention/);
    await context.close();
  }
  if (pictures !== undefined) {
    for (const width of WIDTHS) {
      const { context, page } = await open(width, 'dark');
      for (const name of PICTURED) {
        await page.goto(`${origin}/${name}`);
        await picture(page, `${name.replace('.html', '')}-${width}-dark`);
      }
      await context.close();
    }
  }
  console.log(`the browser: ${pages.length} pages at ${WIDTHS.join(' and ')} px, ${faults.length} faults`);
} finally {
  await browser.close();
  server.close();
  rmSync(profile, { recursive: true, force: true });
}
faults.forEach((fault) => console.error(fault));
process.exit(faults.length === 0 ? 0 : 1);
