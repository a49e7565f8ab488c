// The host of an agent: it runs the tool calls of a transcript that have no result yet, and writes the results into it. The transcript
// stands in for a model, which would write the calls. Node.js 20 or newer, with @modelcontextprotocol/client:
//   GATEWAY=http://localhost:10000 TOKEN=… node host.mjs TRANSCRIPT
// CRASH=1 ends the host after a call and before its result is written, as a crash would.
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const KEY = 'shop.example.com/idempotency-key';
const file = process.argv[2];
const transcript = JSON.parse(readFileSync(file, 'utf8'));

const client = new Client({ name: 'host', version: '1.0.0' });
const server = fileURLToPath(new URL('server.mjs', import.meta.url));
await client.connect(new StdioClientTransport({ command: process.execPath, args: [server], env: process.env }));

for (const call of transcript.calls) {
  if (call.result !== undefined) continue;
  // The key is the intent: this call of this conversation. Both ids were written down before the call, so a host that comes back after a
  // crash sends the same key. A new call of the model, with the same arguments, has a new id and so a new key.
  const _meta = call.without_key ? {} : { [KEY]: `${transcript.conversation}-${call.id}` };
  const result = await client.callTool({ name: call.name, arguments: call.arguments, _meta });
  console.log(`${call.id}: ${result.isError ? 'error' : 'ok'}${result._meta?.replayed ? ', replayed' : ''}: ${result.content[0].text}`);
  if (process.env.CRASH) process.exit(1);
  call.result = result.content;
  writeFileSync(`${file}.new`, JSON.stringify(transcript, null, 2));
  renameSync(`${file}.new`, file);
}
await client.close();
