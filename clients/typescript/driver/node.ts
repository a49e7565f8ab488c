// The driver of the end-to-end tests with FileStore in Node.js (clients/DRIVER.md).
import { createInterface } from "node:readline";
import { FileStore } from "edge-idempotency-client/node";
import { Driver, type Settings } from "./protocol.js";

const settings: Settings = JSON.parse(process.argv[2] ?? "");
const driver = new Driver(settings, new FileStore(settings.store), (line) => {
  process.stdout.write(`${line}\n`);
});
if (settings.resume) await driver.resume();
const sent: Promise<void>[] = [];
for await (const line of createInterface({ input: process.stdin })) if (line.trim() !== "") sent.push(driver.send(line));
await Promise.all(sent);
