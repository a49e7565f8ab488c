import * as restate from "@restatedev/restate-sdk";

type Promises = { await(ctx: restate.ObjectContext, input: { awakeable: string; ttl_s: number }): Promise<unknown> };

// From now on `key`, which is `{tenant}:{project}:{what is waited for}`, leads here, for as long as `ttlSeconds` says. The
// promise stands in an object, because an async function that returned it would wait for it.
async function promise<T>(ctx: restate.Context, key: string, ttlSeconds: number) {
  const { id, promise } = ctx.awakeable<T>();
  await ctx.objectClient<Promises>({ name: "Promises" }, key).await({ awakeable: id, ttl_s: ttlSeconds });
  return { promise };
}

type Event = { type: string } | null; // An empty body is null.
const DAY = 24 * 60 * 60;

// The payment provider, as far as this example needs it: a real one is called here, and answers with the id of the charge.
const charge = async (order: string) => `ch_${order}`;

// Whose charge it is: the gateway sets these headers from the caller's token.
const scope = (ctx: restate.Context) => {
  const [tenant, project] = ["x-tenant-id", "x-project-id"].map((name) => ctx.request().headers.get(name));
  if (!tenant || !project) throw new restate.TerminalError("no tenant or no project", { errorCode: 400 });
  return `${tenant}:${project}`;
};

const orders = restate.service({
  name: "Orders",
  handlers: {
    // Waits for the one event that there will be.
    pay: async (ctx: restate.Context, order: string) => {
      const id = await ctx.run("charge the card", () => charge(order));
      const { promise: paid } = await promise<Event>(ctx, `${scope(ctx)}:stripe:${id}`, DAY);
      const event = await paid;
      return { order, charge: id, event: event?.type };
    },
    // Waits for one of two events, where the key holds the event's type.
    settle: async (ctx: restate.Context, order: string) => {
      const id = await ctx.run("charge the card", () => charge(order));
      const succeeded = await promise<Event>(ctx, `${scope(ctx)}:stripe:charge.succeeded:${id}`, DAY);
      const failed = await promise<Event>(ctx, `${scope(ctx)}:stripe:charge.failed:${id}`, DAY);
      const event = await restate.RestatePromise.race([succeeded.promise, failed.promise]);
      return { order, paid: event?.type === "charge.succeeded" };
    },
  },
});
restate.serve({ services: [orders], port: Number(process.env.PORT ?? 9080) });
