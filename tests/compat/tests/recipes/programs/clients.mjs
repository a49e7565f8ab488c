// Sends requests with a library for Node.js, all at the same time. tests/compat/tests/recipes/programs.rs has the form of the lines.
// usage: node clients.mjs LIBRARY plain|configured
import { readFileSync } from "node:fs";

const [library, mode] = process.argv.slice(2);
const BASE = 10; // milliseconds
// stripe-node never ends a call whose answer is cut off: after so many milliseconds it is taken to tell nothing.
const LIMIT = 5_000;
const example = (name) => import(`./${name}.mjs`);
const headers = ({ token, key }) => ({
  authorization: `Bearer ${token}`,
  "content-type": "application/json",
  ...(key && { "idempotency-key": key }),
});

const senders = {
  async axios(call) {
    let api;
    if (mode === "configured") {
      api = (await example("axios")).client({ timeout: call.timeout, base: BASE });
    } else {
      const [{ default: axios }, { default: axiosRetry }] = [await import("axios"), await import("axios-retry")];
      api = axios.create({ timeout: call.timeout });
      axiosRetry(api);
    }
    return (await api.post(call.url, call.body, { headers: headers(call) })).status;
  },
  async got(call) {
    const plain = async () => (await import("got")).default.extend({ timeout: { request: call.timeout } });
    const api = mode === "configured" ? (await example("got")).client({ timeout: call.timeout, base: BASE }) : await plain();
    return (await api.post(call.url, { headers: headers(call), body: call.body })).statusCode;
  },
  async undici(call) {
    const { Agent, RetryAgent, request } = await import("undici");
    const plain = () => new RetryAgent(new Agent({ headersTimeout: call.timeout, bodyTimeout: call.timeout }));
    const dispatcher =
      mode === "configured" ? (await example("undici")).dispatcher({ timeout: call.timeout, base: BASE }) : plain();
    const answer = await request(call.url, { method: "POST", headers: headers(call), body: call.body, dispatcher });
    await answer.body.text();
    return answer.statusCode;
  },
  async fetch(call) {
    const init = { method: "POST", headers: headers(call), body: call.body, signal: AbortSignal.timeout(call.timeout) };
    const answer = await fetch(call.url, init);
    await answer.text();
    return answer.status;
  },
  // The configuration is the API's: its answers have `stripe-should-retry`, or have not.
  async stripe(call) {
    const { hostname: host, port, pathname } = new URL(call.url);
    const stripe = (await example("stripe")).client(call.token, { protocol: "http", host, port, timeout: call.timeout });
    const answer = await stripe.rawRequest("POST", pathname, { amount: 4200 }, call.key ? { idempotencyKey: call.key } : {});
    return answer.lastResponse.statusCode;
  },
};

// The status of an error answer, else the error's code or name. An answer that is cut off has a status, too, and is no error answer.
function name(error) {
  const status = error.response?.status ?? error.response?.statusCode ?? error.statusCode;
  if (status >= 300) return status;
  return typeof error.code === "string" ? error.code : error.name;
}

const lines = readFileSync(0, "utf8").split("\n").filter(Boolean);
await Promise.all(
  lines.map(async (line) => {
    const [situation, url, token, key, timeout, body] = line.split("\t");
    const send = async () => senders[library]({ url, token, key, timeout: Number(timeout), body });
    const told = [send().catch(name)];
    if (library === "stripe" && situation === "CutOff") told.push(new Promise((resolve) => setTimeout(resolve, LIMIT, "nothing")));
    console.log(`${situation}\t${await Promise.race(told)}`);
  }),
);
// A connection that is kept open would keep the program.
process.exit(0);
