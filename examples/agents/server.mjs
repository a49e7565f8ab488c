// An MCP server whose tool takes an order at the API behind the gateway. It sends the key that the host has made for this call, and it
// sends the same key when it tries again. Node.js 20 or newer, with @modelcontextprotocol/server:
//   GATEWAY=http://localhost:10000 TOKEN=… node server.mjs       (speaks MCP on standard input and output)
import { McpServer } from '@modelcontextprotocol/server';
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import * as z from 'zod';

/** The member of `_meta` in which host and server of this example agree to send the key. MCP has none. */
const KEY = 'shop.example.com/idempotency-key';
const { GATEWAY, TOKEN } = process.env;

const server = new McpServer({ name: 'shop', version: '1.0.0' });

server.registerTool(
  'take_order',
  {
    description: 'Orders an item.',
    inputSchema: z.object({ item: z.string() }),
    // A host may repeat the call: the same key has one effect.
    annotations: { idempotentHint: true },
  },
  async ({ item }, context) => {
    const key = context.mcpReq._meta?.[KEY];
    const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' };
    if (key !== undefined) headers['idempotency-key'] = key;
    const answer = await send({ method: 'POST', headers, body: JSON.stringify({ item }) });
    const text = await answer.text();
    const replayed = answer.headers.get('idempotent-replayed') === 'true';
    // The text of a refusal says what to change, in words that a model can act on.
    return { isError: !answer.ok, content: [{ type: 'text', text }], _meta: { replayed } };
  },
);

/** Sends it up to four times: a broken connection, a 5xx and a 409 under way say nothing about the effect. */
async function send(request, attempt = 1) {
  const answer = await fetch(`${GATEWAY}/orders`, request).catch((error) => error);
  const isOpen = answer instanceof Error || answer.status >= 500 || answer.status === 409;
  if (!isOpen) return answer;
  if (attempt === 4 || request.headers['idempotency-key'] === undefined) {
    if (answer instanceof Error) throw answer;
    return answer;
  }
  await new Promise((resolve) => setTimeout(resolve, 250 * 2 ** attempt));
  return send(request, attempt + 1);
}

await server.connect(new StdioServerTransport());
