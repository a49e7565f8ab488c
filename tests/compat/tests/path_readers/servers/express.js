// Express with the routes of a file: each answers with its name and the parameters that it read. `/users` answers errors, for the test
// `framework_errors`: those of ajv, and one that a handler throws.
//
// usage: express.js ROUTES PORT
"use strict";

const fs = require("node:fs");
const Ajv = require("ajv");
const express = require("express");

const isUser = new Ajv({ allErrors: true }).compile({
  type: "object",
  properties: { address: { type: "object", properties: { street: { type: "string" } }, required: ["city"] } },
  required: ["name"],
});
const app = express();
for (const { name, method, path } of JSON.parse(fs.readFileSync(process.argv[2], "utf8"))) {
  // Express compares with the path as it came.
  const template = path.replaceAll(/[:*+?!()[\]]/g, "\\$&").replaceAll(/\{(\w+)\}/g, ":$1");
  app[method.toLowerCase()](template, (request, response) => response.json({ route: name, values: request.params }));
}
app.post("/users", express.json(), (request, response) => {
  isUser(request.body);
  response.status(422).json({ message: `POST ${request.path}: no user`, errors: isUser.errors });
});
app.get("/users/:id", (request) => {
  throw new Error(`GET ${request.path}: no such user`);
});
app.listen(Number(process.argv[3]), "127.0.0.1");
