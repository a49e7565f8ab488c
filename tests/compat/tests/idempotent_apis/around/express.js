// What handlers do with an answer, between middlewares that come before the one of examples/express and after it. `around.json` has the
// requests.
"use strict";

const { Readable } = require("node:stream");
const { pipeline } = require("node:stream/promises");
const express = require("express");
const compression = require("compression");
const cookieSession = require("cookie-session");
const cors = require("cors");
const helmet = require("helmet");
const session = require("express-session");
const { idempotency, Store } = require("../../../../../examples/express/idempotency.js");

const TEXT = "all work and no play ".repeat(200);
const PIECES = ["one, ", "two, ", "three"];
const runs = {};
const handlers = express.Router();
const on = (path, handler) => handlers.all(path, handler);

handlers.use((request, response, next) => {
  runs[request.originalUrl] = (runs[request.originalUrl] ?? 0) + 1;
  next();
});
on("/cart", (request, response) => {
  request.session.items = (request.session.items ?? 0) + 1;
  response.json({ items: request.session.items });
});
on("/cookies", (request, response) => response.cookie("a", "1").cookie("b", "2").json({}));
on("/text", (request, response) => response.type("text/plain").send(TEXT));
on("/changed", (request, response) => {
  response.vary("accept-language").removeHeader("x-gone");
  response.type("text/csv").set("cache-control", "private, max-age=60").send("a,b\n");
});
on("/empty", (request, response) => response.status(204).end());
on("/redirect", (request, response) => response.redirect(303, "/elsewhere"));
on("/file", (request, response) => response.sendFile(`${__dirname}/file.txt`));
on("/stream", (request, response) => {
  response.type("text/plain");
  Readable.from(PIECES).pipe(response);
});
on("/breaks", (request, response) => {
  response.type("text/plain").write("partial");
  throw new Error("after the first bytes");
});
on("/body", async (request, response) => {
  let body = "";
  for await (const part of request) body += part;
  response.send(body.toUpperCase());
});
on("/hints", (request, response) => {
  response.writeEarlyHints({ link: "</a.css>; rel=preload" });
  response.json({});
});

// Forms of Node.js's own functions.
on("/list", (request, response) => response.writeHead(201, ["Content-Type", "text/plain", "X-A", "1", "X-A", "2"]).end("ok"));
on("/pairs", (request, response) => response.writeHead(201, [["content-type", "text/plain"], ["x-a", ["1", "2"]]]).end("ok"));
on("/object", (request, response) => response.writeHead(201, { "content-type": "text/plain", "x-a": ["1", "2"], "x-n": 3 }).end("ok"));
on("/reason", (request, response) => response.writeHead(202, "Will Do", ["x-a", "1"]).end());
on("/maps", (request, response) => {
  response.setHeaders(new Map([["x-a", "1"]])).appendHeader("x-a", "2").appendHeader("x-b", ["3", "4"]);
  response.end("ok");
});
on("/writes", async (request, response) => {
  response.flushHeaders();
  await new Promise((done) => response.write("aGk=", "base64", done));
  await new Promise((done) => response.write(new Uint8Array([32, 0xff]), done));
  await new Promise((done) => response.end("2121", "hex", done));
});
on("/pipeline", async (request, response) => pipeline(Readable.from(PIECES), response.status(203)));
on("/trailers", (request, response) => {
  response.setHeader("trailer", "x-sum");
  response.write("ok");
  response.addTrailers({ "x-sum": "7" });
  response.end();
});
on("/twice", (request, response) => {
  response.status(201).json({ answer: 1 });
  if (!response.writableEnded) response.status(202).set("x-a", "1").json({ answer: 2 });
});
on("/invalid", (request, response) => response.writeHead(99).end());

const SURROUNDINGS = {
  bare: [[], []],
  session: [[session({ secret: "s", resave: false, saveUninitialized: false })], []],
  "session-after": [[], [session({ secret: "s", resave: false, saveUninitialized: false })]],
  "cookie-session": [[cookieSession({ secret: "s" })], []],
  compressed: [[compression()], []],
  "compressed-after": [[], [compression()]],
  secured: [[helmet(), cors({ origin: true, credentials: true })], []],
  presets: [[presets], []],
};

function presets(request, response, next) {
  response.set({ "content-type": "application/json", "cache-control": "no-store", "x-gone": "1", "x-api-version": "3" });
  response.cookie("seen", "1").vary("origin");
  next();
}

const app = express().disable("x-powered-by");
app.get("/runs", (request, response) => response.json(runs));
for (const [name, [before, after]] of Object.entries(SURROUNDINGS)) {
  const store = new Store(process.env.IDEMPOTENCY_DB, { lease: 86_400, retention: 86_400 });
  app.use(`/${name}`, ...before, idempotency(store), ...after, handlers);
}
app.listen(Number(process.env.PORT), "127.0.0.1");
