import * as restate from "@restatedev/restate-sdk";

const guard = restate.service({
  name: "IdempotencyGuard",
  handlers: { claim: async (_: restate.Context, fingerprint: string) => fingerprint },
  options: {
    idempotencyRetention: { hours: 170 },
    journalRetention: 0,
    retryPolicy: { maxInterval: { seconds: 5 }, maxAttempts: 10_000_000, onMaxAttempts: "pause" },
  },
});
restate.serve({ services: [guard], port: Number(process.env.PORT ?? 9090) });
