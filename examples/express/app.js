// Takes orders and refunds, each of which calls a payment provider, and does each of them once for each `Idempotency-Key`.
//
//   npm install --prefix examples/express
//   PAYMENTS_URL=https://payments.example.com PORT=9000 node examples/express/app.js
//
// `IDEMPOTENCY_DB`, `IDEMPOTENCY_LEASE_SECONDS` and `IDEMPOTENCY_RETENTION_SECONDS` say where answers are kept, and how long.
"use strict";

const express = require("express");
const { idempotency, Store } = require("./idempotency.js");

const { PAYMENTS_URL, PORT = "9000", IDEMPOTENCY_DB = "results.db" } = process.env;
const { IDEMPOTENCY_LEASE_SECONDS = "90", IDEMPOTENCY_RETENTION_SECONDS = "86400" } = process.env;

const app = express();
app.use(express.json());
app.use(
  idempotency(
    new Store(IDEMPOTENCY_DB, {
      // Longer than the gateway waits for an answer (60 s in a rendered configuration) and than any handler runs.
      lease: Number(IDEMPOTENCY_LEASE_SECONDS),
      retention: Number(IDEMPOTENCY_RETENTION_SECONDS),
    }),
  ),
);

/** Asks the payment provider, which deduplicates by our key: after a crash here, the second attempt moves no money. */
async function pay(what, { item, amount }, response) {
  const headers = { "content-type": "application/json" };
  if (response.locals.operationKey) headers["idempotency-key"] = response.locals.operationKey;
  const reply = await fetch(`${PAYMENTS_URL}/${what}`, {
    method: "POST",
    headers,
    body: JSON.stringify({ item, amount }),
    signal: AbortSignal.timeout(25_000),
  });
  if (reply.ok) return (await reply.json()).id;
  const details = { 402: "The card was declined", 403: "The card needs a right that the caller does not have" };
  const detail = details[reply.status];
  response.status(detail ? reply.status : 503).json({ detail: detail ?? "The payment provider does not answer" });
  return undefined;
}

const isOrder = ({ item, amount } = {}) => typeof item === "string" && Number.isInteger(amount);

app.post("/orders", async (request, response) => {
  if (!isOrder(request.body)) return response.status(422).json({ detail: "An order has an item and an amount" });
  const payment = await pay("charges", request.body, response);
  if (payment === undefined) return undefined;
  response.clearCookie("basket").location(`/orders/${payment}`);
  return response.status(201).json({ id: payment, item: request.body.item });
});

app.post("/refunds", async (request, response) => {
  if (!isOrder(request.body)) return response.status(422).json({ detail: "A refund has an item and an amount" });
  const payment = await pay("refunds", request.body, response);
  return payment === undefined ? undefined : response.status(201).json({ id: payment, item: request.body.item });
});

app.delete("/orders/:item", async (request, response) => {
  const payment = await pay("cancellations", { item: request.params.item, amount: 0 }, response);
  return payment === undefined ? undefined : response.status(204).end();
});

const server = app.listen(Number(PORT), "127.0.0.1", () => console.log(`listening on ${server.address().port}`));
