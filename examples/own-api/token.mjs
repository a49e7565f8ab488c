// Makes the trial's tokens, which an identity provider makes in a real installation. Node.js 18 or newer, no packages:
//   node token.mjs TENANT PROJECT USER    prints a token that is valid for a day
// The first run makes a key pair beside this file: `key.pem` signs, `jwks.json` is what the gateway verifies with.
import { createPrivateKey, createPublicKey, createSign, generateKeyPairSync } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const [tenant, project, user] = process.argv.slice(2);
if (user === undefined) {
  console.error('usage: node token.mjs TENANT PROJECT USER');
  process.exit(2);
}
const file = (name) => fileURLToPath(new URL(name, import.meta.url));
if (!existsSync(file('key.pem'))) {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  writeFileSync(file('key.pem'), privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 });
}
const key = createPrivateKey(readFileSync(file('key.pem')));
const jwk = { ...createPublicKey(key).export({ format: 'jwk' }), kid: 'trial', alg: 'RS256', use: 'sig' };
writeFileSync(file('jwks.json'), JSON.stringify({ keys: [jwk] }));

const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
const now = Math.floor(Date.now() / 1000);
const claims = { iss: 'https://trial.example.com', tenant_id: tenant, project_id: project, sub: user, iat: now, exp: now + 86_400 };
const signed = `${encode({ alg: 'RS256', typ: 'JWT', kid: 'trial' })}.${encode(claims)}`;
console.log(`${signed}.${createSign('RSA-SHA256').update(signed).sign(key, 'base64url')}`);
