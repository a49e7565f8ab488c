// The part of driver-chromium that runs in the page.
import { IndexedDbStore } from "edge-idempotency-client";
import { Driver, type Settings } from "./protocol.js";

declare global {
  /** Writes a line to the standard output of the driver. */
  function tell(line: string): Promise<void>;
}

let driver: Driver;

/** Makes the driver, and sends what is kept if the settings say so. */
export async function start(settings: Settings): Promise<void> {
  driver = new Driver(settings, new IndexedDbStore(), tell);
  if (settings.resume) await driver.resume();
}

/** Sends one line's intent. */
export function send(line: string): Promise<void> {
  return driver.send(line);
}
