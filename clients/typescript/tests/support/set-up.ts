// What Node.js loads.
import { IdempotentClient } from "../../src/node/index.js";
import type { ClientOptions } from "../../src/options.js";
import { MemoryStore } from "../../src/store.js";
import { FakeApi, type Step } from "./api.js";
import { FakePlatform } from "./platform.js";

/** Who sends, unless the test says otherwise. */
export const OWNER = "acme/shop/ann";
/** The client's options about its owner. */
export const ANN = { owner: OWNER, credentials: () => ({ owner: OWNER }) };
export const ORDERS = "https://api.example.test/orders";

/** A client with clocks that jump, in front of a stand-in for fetch that gives these answers. */
export function setUp(steps: Step[], options: Partial<ClientOptions> = {}) {
  const api = new FakeApi(...steps);
  const platform = new FakePlatform();
  const store = new MemoryStore();
  const client = new IdempotentClient({ store, ...ANN, fetch: api.fetch, ...options }, platform);
  const order = (init: RequestInit = {}) => client.fetch(ORDERS, { method: "POST", body: '{"item":"tea"}', ...init });
  return { api, platform, store, client, order };
}
