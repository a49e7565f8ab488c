// Express with the routes of a file: each answers with its name and the parameters that it read.
//
// usage: express.js ROUTES PORT
"use strict";

const fs = require("node:fs");
const express = require("express");

const app = express();
for (const { name, method, path } of JSON.parse(fs.readFileSync(process.argv[2], "utf8"))) {
  // Express compares with the path as it came.
  const template = path.replaceAll(/[:*+?!()[\]]/g, "\\$&").replaceAll(/\{(\w+)\}/g, ":$1");
  app[method.toLowerCase()](template, (request, response) => response.json({ route: name, values: request.params }));
}
app.listen(Number(process.argv[3]), "127.0.0.1");
