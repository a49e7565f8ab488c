// An ordinary API that deduplicates by `Idempotency-Key`, as many frameworks do: one store in memory, the key alone tells
// requests apart. It knows nothing of tenants and nothing of the gateway. Node.js 18 or newer, no packages:
//   node server.mjs [PORT]                (default 9000; 0 takes a free port)
//   FUTURE_KEY_HEADER=future-idempotency-key node server.mjs
// With FUTURE_KEY_HEADER it stores each answer under the key of this header, too (docs/production.md). With KEPT_PORT it tells at
// this port, which no client may reach, what it has stored under a key (docs/restate.md).
import { createServer } from 'node:http';

const ORIGIN = 'https://app.example.com';
const orders = [];
const kept = new Map(); // idempotency key -> a promise of [status, body]
const FUTURE = process.env.FUTURE_KEY_HEADER;

/** Takes an order, half a second long, so that a second request can meet the first one. */
async function takeOrder(body) {
  let order;
  try {
    order = JSON.parse(body);
  } catch {
    return [400, { error: 'the body is not JSON' }];
  }
  await new Promise((resolve) => setTimeout(resolve, 500));
  if (order?.item === undefined) return [422, { error: 'an order needs an item' }];
  orders.push(order);
  return [201, { number: orders.length, item: order.item }];
}

async function answer(request, body) {
  const key = request.headers['idempotency-key'];
  if (request.method === 'OPTIONS') return [204, null, {}];
  // The API checks its callers itself; the gateway has checked the token's signature.
  if (!request.headers.authorization?.startsWith('Bearer ')) return [401, { error: 'no token' }, {}];
  if (request.url !== '/orders') return [404, { error: 'no such page' }, {}];
  if (request.method === 'GET') return [200, { orders, cookie: request.headers.cookie ?? null, key: key ?? null }, {}];
  if (request.method !== 'POST') return [405, { error: 'GET or POST' }, {}];
  if (key === undefined) return [...(await takeOrder(body)), {}];
  const keys = [FUTURE && request.headers[FUTURE], key].filter(Boolean);
  const earlier = kept.get(keys.find((known) => kept.has(known)));
  if (earlier === undefined) {
    const work = { done: false };
    work.result = takeOrder(body).finally(() => (work.done = true));
    for (const each of keys) kept.set(each, work);
    return [...(await work.result), {}];
  }
  if (!earlier.done) return [409, { error: 'this order is being taken' }, { 'retry-after': '1' }];
  return [...(await earlier.result), { 'idempotent-replayed': 'true' }];
}

const server = createServer(async (request, response) => {
  let body = '';
  for await (const part of request) body += part;
  const [status, document, headers] = await answer(request, body);
  console.log(`${request.method} ${request.url} key=${request.headers['idempotency-key'] ?? '-'} -> ${status}`);
  response.writeHead(status, {
    'content-type': 'application/json',
    'access-control-allow-origin': ORIGIN,
    'access-control-allow-credentials': 'true',
    'access-control-allow-headers': 'authorization, content-type, idempotency-key',
    'access-control-expose-headers': 'idempotent-replayed, idempotency-status, idempotency-retry, retry-after',
    vary: 'origin',
    ...headers,
  });
  response.end(document === null ? '' : JSON.stringify(document));
});

if (process.env.KEPT_PORT) {
  const told = createServer(async (request, response) => {
    const work = kept.get(decodeURIComponent(request.url.slice(1)));
    response.statusCode = work === undefined ? 404 : work.done ? 200 : 409;
    response.end(work?.done ? JSON.stringify((await work.result)[1]) : '');
  });
  told.listen(Number(process.env.KEPT_PORT), '127.0.0.1');
}
server.listen(Number(process.argv[2] ?? 9000), '127.0.0.1', () => console.log(`listening on ${server.address().port}`));
