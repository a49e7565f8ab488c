import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";

/** One answer of the server. */
interface Reply {
  readonly status?: number;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

/** A request as the server got it. */
interface Received {
  readonly method: string;
  readonly key: string | null;
  readonly authorization: string | null;
  readonly attempt: string | null;
  readonly body: string;
}

const ORIGIN = "http://app.localhost:18080";
const CORS = {
  "Access-Control-Allow-Origin": ORIGIN,
  "Access-Control-Expose-Headers":
    "Idempotency-Status, Idempotent-Replayed, Idempotency-Retry, Retry-After, X-Operation-Id, Location, Idempotency-Expires",
};

/** A running server. */
export interface Server {
  /** Its URL, without a path. */
  readonly base: string;
  /** What came under this name. */
  received(name: string): Received[];
  stop(): Promise<void>;
}

/**
 * A local HTTP server for tests. `/run/NAME?replies=JSON` gives one reply after the other, the last one again and again, and
 * `/received/NAME` tells what came. It allows the origin of the page in Chromium.
 */
export async function startServer(): Promise<{
  base: string;
  received: (name: string) => Received[];
  stop: () => Promise<void>;
}> {
  const received = new Map<string, Received[]>();
  const receivedBy = (name: string) => {
    const list = received.get(name) ?? [];
    received.set(name, list);
    return list;
  };
  const server = createServer(async (request, response) => {
    const url = new URL(request.url ?? "/", "http://server");
    const [, what, name = ""] = url.pathname.split("/");
    for (const [header, value] of Object.entries(CORS)) response.setHeader(header, value);
    if (request.method === "OPTIONS") {
      response.setHeader("Access-Control-Allow-Methods", "GET, POST, PATCH");
      response.setHeader("Access-Control-Allow-Headers", "authorization, content-type, idempotency-key");
      response.writeHead(204).end();
    } else if (what === "received") {
      response.end(JSON.stringify(receivedBy(name)));
    } else {
      const list = receivedBy(name);
      list.push({ ...describe(request), body: await readBody(request) });
      const replies: Reply[] = JSON.parse(url.searchParams.get("replies") ?? "[{}]");
      const { status = 200, headers = {}, body = "" } = replies[Math.min(list.length, replies.length) - 1] ?? {};
      response.writeHead(status, headers).end(body);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const stop = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return { base: `http://127.0.0.1:${port}`, received: receivedBy, stop };
}

function describe({ method, headers }: IncomingMessage): Omit<Received, "body"> {
  const text = (name: string) => (headers[name] as string | undefined) ?? null;
  return {
    method: method ?? "",
    key: text("idempotency-key"),
    authorization: text("authorization"),
    attempt: text("x-retry-attempt"),
  };
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
