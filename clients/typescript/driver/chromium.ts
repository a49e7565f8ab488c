// The driver of the end-to-end tests with IndexedDbStore in a page of Chromium (clients/DRIVER.md).
import { createInterface } from "node:readline";
import { openPage } from "./browser.js";
import type { Settings } from "./protocol.js";

const settings: Settings = JSON.parse(process.argv[2] ?? "");
const { context, page } = await openPage(settings.store);
const onEnd = () => {
  process.stderr.write("driver-chromium: Chromium has ended\n");
  process.exit(1);
};
context.on("close", onEnd);
await page.exposeFunction("tell", (line: string) => {
  process.stdout.write(`${line}\n`);
});
const module = await page.evaluateHandle<typeof import("./page.js")>('import("/driver/page.js")');
await module.evaluate((page, given) => page.start(given), settings);
const sent: Promise<void>[] = [];
for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() !== "") sent.push(module.evaluate((page, given) => page.send(given), line));
}
await Promise.all(sent);
context.off("close", onEnd);
await context.close();
