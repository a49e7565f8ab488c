// Calls the API once with Stripe's SDK for Node.js, and prints what the application sees, as JSON.
// usage: node client.js '{"port": 1, "token": "…", "path": "/v1/refunds", "key": "…"}'
const Stripe = require("stripe");

const { port, token, path, key } = JSON.parse(process.argv[2]);
const stripe = new Stripe(token, { protocol: "http", host: "127.0.0.1", port, maxNetworkRetries: 2, telemetry: false });

// What the SDK would wait, in seconds. It does not wait here.
const waits = [];
const sender = stripe._requestSender;
const sleepTime = sender._getSleepTimeInMS.bind(sender);
sender._getSleepTimeInMS = (...args) => {
  waits.push(sleepTime(...args) / 1000);
  return 0;
};

stripe
  .rawRequest("POST", path, { amount: 4200 }, key ? { idempotencyKey: key } : {})
  .then(
    (body) => ({ ok: true, body }),
    (error) => ({ ok: false, error: error.constructor.name, status: error.statusCode, code: error.code, message: error.message }),
  )
  .then((seen) => {
    console.log(JSON.stringify({ ...seen, waits }));
    // A retried answer that the SDK did not read to its end keeps a connection open.
    process.exit(0);
  });
