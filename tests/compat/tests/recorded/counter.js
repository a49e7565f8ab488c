// An API that knows nothing of idempotency keys. It writes down what it does, one line for each request, before it answers.
"use strict";

const fs = require("fs");
const { randomBytes } = require("crypto");
const express = require("express");

const app = express();
const held = [];
app.use(express.raw({ type: () => true, limit: "4mb" }));
app.get("/release", (_, response) => {
  held.splice(0).forEach((answer) => answer());
  response.end();
});
app.all("/{*path}", (request, response) => {
  const { status = "200", bytes = "40", after, location, hold } = request.query;
  const { headers, method, originalUrl } = request;
  const told = ["x-mark", "x-tenant-id", "x-subject", "idempotency-key"].map((name) => headers[name] ?? "");
  fs.appendFileSync(process.env.EFFECTS, `${method} ${request.path}\t${JSON.stringify([...told, originalUrl])}\n`);
  const answer = () => {
    if (after) response.set("retry-after", after);
    if (location) response.set("location", location);
    response.append("set-cookie", "a=1").append("set-cookie", "b=2").set("content-type", "application/octet-stream");
    response.set("x-seen", JSON.stringify([originalUrl, headers, request.body?.toString?.("base64") ?? "", method]));
    response.status(Number(status)).send(randomBytes(Number(bytes)));
  };
  if (hold) held.push(answer);
  else answer();
});
const server = app.listen(Number(process.env.PORT), "127.0.0.1", 1024);
// An upgraded connection is an echo.
server.on("upgrade", (request, socket) => {
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: ${request.headers.upgrade}\r\n\r\n`);
  socket.pipe(socket);
});
