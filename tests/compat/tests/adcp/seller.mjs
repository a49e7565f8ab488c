// A seller agent of AdCP over MCP. It keeps no keys: each charge goes through the gateway with the request's arguments, which hold the key.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

const { charges, token } = JSON.parse(process.argv[2]);
const buys = new Map();

const TOOLS = ['get_adcp_capabilities', 'create_media_buy', 'get_media_buys'];
const ERRORS = {
  idempotency_key_required: 'INVALID_REQUEST',
  idempotency_key_invalid: 'INVALID_REQUEST',
  request_invalid: 'INVALID_REQUEST',
  idempotency_key_reused: 'IDEMPOTENCY_CONFLICT',
  idempotency_key_in_flight: 'IDEMPOTENCY_IN_FLIGHT',
  rate_limited: 'RATE_LIMITED',
};

async function createMediaBuy(call) {
  const amount = call.packages.reduce((sum, { budget }) => sum + budget, 0);
  const response = await fetch(charges, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
    body: JSON.stringify({ ...call, order_id: 'acme-outdoor', amount }),
  });
  const answer = await response.json();
  if (!response.ok) {
    const code = ERRORS[answer.code] ?? 'SERVICE_UNAVAILABLE';
    const field = answer.code === 'idempotency_key_required' ? { field: 'idempotency_key' } : {};
    return { adcp_error: { code, message: answer.title, ...field } };
  }
  const media_buy_id = `mb_${answer.refund_id}`;
  buys.set(media_buy_id, { amount, currency: 'USD' });
  const packages = call.packages.map((one, index) => ({ package_id: `${media_buy_id}_${index}`, product_id: one.product_id, budget: one.budget }));
  // Whoever calls again hears of nothing new.
  const hears = call.push_notification_config?.url;
  if (hears && !answer.replayed) await fetch(hears, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ idempotency_key: randomUUID(), task_type: 'create_media_buy', status: 'completed', result: { media_buy_id } }) });
  // The gateway marks a replay in the charge's answer.
  return { media_buy_id, status: 'pending_creatives', revision: 1, packages, idempotency_key: call.idempotency_key, ...('replayed' in answer && { replayed: answer.replayed }) };
}

async function tool(name, call) {
  if (name === 'create_media_buy') return createMediaBuy(call);
  if (name === 'get_media_buys') {
    const wanted = call.media_buy_ids ?? [...buys.keys()];
    const media_buys = wanted.filter((id) => buys.has(id)).map((media_buy_id) => {
      const { amount: total_budget, currency } = buys.get(media_buy_id);
      return { media_buy_id, status: 'pending_creatives', currency, total_budget, packages: [] };
    });
    return { media_buys };
  }
  return {
    adcp: { major_versions: [3], idempotency: { supported: true, replay_ttl_seconds: 86400 } },
    supported_protocols: ['media_buy'],
    account: { supported_billing: ['operator'] },
  };
}

async function answer({ method, params }) {
  switch (method) {
    case 'initialize':
      return { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'seller', version: '1' } };
    case 'tools/list':
      return { tools: TOOLS.map((name) => ({ name, inputSchema: { type: 'object' } })) };
    case 'tools/call': {
      const said = await tool(params.name, params.arguments);
      // Each answer has the context of its own request, a replay's too.
      const structuredContent = { ...said, context: params.arguments.context };
      return { structuredContent, content: [{ type: 'text', text: JSON.stringify(structuredContent) }], isError: 'adcp_error' in said };
    }
    default:
      return {};
  }
}

const server = createServer(async (request, response) => {
  let text = '';
  for await (const part of request) text += part;
  const call = request.method === 'POST' ? JSON.parse(text) : {};
  if (call.id === undefined) return response.writeHead(request.method === 'POST' ? 202 : 405).end();
  if (process.env.DEBUG) console.error(text);
  const result = await answer(call);
  if (process.env.DEBUG) console.error('  ->', JSON.stringify(result));
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id: call.id, result }));
});
server.listen(Number(process.env.PORT ?? 0), '127.0.0.1', () => console.log(server.address().port));
