// Unpacks the Chromium of @sparticuz/chromium, and the libraries that it needs. The package itself would unpack them into the system's
// temporary folder, anew after each restart of the machine.
//
// usage: node unpack-chromium.mjs PACKAGE/bin TARGET
import { execFileSync } from "node:child_process";
import { createReadStream, createWriteStream, mkdirSync, rmSync } from "node:fs";
import { pipeline } from "node:stream/promises";
import { createBrotliDecompress } from "node:zlib";

const [packed, target] = process.argv.slice(2);
mkdirSync(target, { recursive: true });
const unpack = (name, file, mode) =>
  pipeline(createReadStream(`${packed}/${name}`), createBrotliDecompress(), createWriteStream(`${target}/${file}`, { mode }));
await unpack("chromium.br", "chromium", 0o755);
await unpack("al2023.tar.br", "libraries.tar", 0o644);
execFileSync("tar", ["-xf", `${target}/libraries.tar`, "-C", target]);
rmSync(`${target}/libraries.tar`);
