// Answers with the key that the gateway hands over (docs/restate.md), in each language that has an SDK.
import * as restate from "@restatedev/restate-sdk";

const keys = restate.service({
  name: "Keys",
  handlers: { show: async (context: restate.Context) => context.request().headers.get("x-idempotency-key") ?? "none" },
});
restate.serve({ services: [keys], port: Number(process.env.PORT) });
