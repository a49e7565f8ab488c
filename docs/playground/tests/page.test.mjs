// The page in a real Chromium says what the command says, and nothing leaves it.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { fill, openBrowser, printed, serve, shown } from "./browser.mjs";

const FILES = process.env.EDGE_PLAYGROUND;
const EXAMPLES = JSON.parse(await readFile(`${FILES}/examples.json`, "utf8"));
const policyOf = ({ policy }) => readFile(`${FILES}/policies/${policy}`, "utf8");
const TOKEN = `eyJhbGciOiJub25lIn0.${Buffer.from('{"tenant_id":"acme","project_id":"shop","sub":"u1"}').toString("base64url")}.c2ln`;

let server;
let browser;
let page;

before(async () => {
  server = await serve();
  browser = await openBrowser();
  page = browser.context.pages()[0];
  await page.goto(`${server.origin}/`);
});

after(async () => {
  await browser?.close();
  server?.close();
});

test("a page that is opened shows the first example", async () => {
  const { policy, state } = await shown(page);
  assert.equal(policy, "The filter starts with this policy.");
  assert.equal(state, "Forwarded, with the key t-acme:shop:user:alice:order-1");
});

for (const [index, example] of EXAMPLES.entries()) {
  test(`as the command prints it: ${example.name}`, async () => {
    await page.getByLabel("Example").selectOption(String(index));
    const { check, verdict, policy, state } = await shown(page);
    const request = example.request.join("\n");
    const expected = await printed({ policy: await policyOf(example), request, token: example.token });
    assert.equal(check, expected.check);
    if (expected.check.includes("error[")) {
      assert.equal(policy, "The filter does not start with this policy.");
      assert.equal(verdict, "");
    } else {
      assert.equal(verdict, expected.verdict);
      assert.match(state, expected.status === 0 ? /^Forwarded/ : /^Refused/);
      // The name of an example says what becomes of it.
      if (/: (forwarded|verified)$/.test(example.name)) assert.equal(expected.status, 0);
      if (/: refused$/.test(example.name)) assert.equal(expected.status, 1);
    }
  });
}

const WRITTEN = [
  ["a token in the header", `curl https://api.example.com/orders -H 'Authorization: Bearer ${TOKEN}' -H 'Idempotency-Key: k' -d 1`],
  ["a token of its own", "curl https://api.example.com/orders -H 'Idempotency-Key: k' -d 1", TOKEN],
  ["no caller", "curl https://api.example.com/orders -H 'Idempotency-Key: k' -d 1"],
  ["characters of all planes", "curl https://api.example.com/orders -H 'Idempotency-Key: käse-\u{1f9c0}' -d '\u{1f9c0}'"],
  ["a body of bytes", "curl https://api.example.com/orders -H 'idempotency-key: k' --data-raw $'\\xff'"],
  ["quotes that are not closed", "curl 'https://api.example.com/orders"],
  ["no curl command", "wget https://api.example.com/orders"],
  ["what only the shell knows", 'curl https://api.example.com/orders -H "Idempotency-Key: $KEY"'],
  ["a document that is no request", '{"method": "POST", "headers": [["a b", 1]]}'],
  ["a document that is no JSON", '{"method": '],
];

for (const [name, request, token] of WRITTEN) {
  test(`as the command prints it: ${name}`, async () => {
    const texts = { policy: await policyOf({ policy: "own-api.json" }), request, token };
    await fill(page, texts);
    const { check, verdict } = await shown(page);
    const expected = await printed(texts);
    assert.deepEqual([check, verdict], [expected.check, expected.verdict]);
  });
}

test("a file of the command is not read", async () => {
  await fill(page, { policy: await policyOf({ policy: "own-api.json" }), request: "curl https://a/orders -d @/etc/passwd" });
  assert.equal((await shown(page)).verdict, "/etc/passwd: the playground reads no files: write the content into the command");
});

test("a command becomes a request document with the same verdict", async () => {
  const request = "curl https://api.example.com/orders -H 'Idempotency-Key: k' -d 1";
  await fill(page, { policy: await policyOf({ policy: "own-api.json" }), request, token: TOKEN });
  const { verdict } = await shown(page);
  await page.getByRole("button", { name: "Turn the command into a request document" }).click();
  const document = JSON.parse(await page.locator("#request").inputValue());
  assert.equal(document.metadata["envoy.filters.http.jwt_authn"].jwt.tenant_id, "acme");
  const [without] = verdict.split("\n\nnotes:");
  assert.equal((await shown(page)).verdict, without);
});

test("a finding leads to its place in the policy", async () => {
  const policy = '{\n  "version": 1, "\u{1f9c0}": 1,\n  "routes": 7\n}';
  await fill(page, { policy, request: "curl https://a" });
  await shown(page);
  await page.getByRole("button", { name: /error, line 3, column \d+: / }).click();
  const selected = await page.locator("#policy").evaluate((field) => field.value.slice(field.selectionStart, field.selectionEnd));
  assert.match(selected, /7|"routes"/);
});

test("a link restores the texts, and has no credentials unless they are asked for", async () => {
  const policy = await policyOf({ policy: "own-api.json" });
  const plain = { policy, request: "curl https://api.example.com/orders \\\n  -H 'Idempotency-Key: \u{1f9c0}' -d 1", token: '{"sub": "u1"}' };
  const secret = {
    policy,
    request: `curl https://api.example.com/orders -H 'Authorization: Bearer ${TOKEN}' -b session=planted -H 'X-Api-Key: planted' -H 'Idempotency-Key: k' -d 1`,
    token: "",
  };
  const share = async (texts) => {
    await fill(page, texts);
    await shown(page);
    await page.getByRole("button", { name: "Make a link" }).click();
    await page.waitForFunction(() => /^The link/.test(document.getElementById("share-state").textContent));
    const [link, told] = [await page.locator("#link").inputValue(), await page.locator("#share-state").textContent()];
    await page.evaluate(() => document.getElementById("share-state").replaceChildren());
    const opened = await browser.context.newPage();
    await opened.goto(link);
    const verdict = (await shown(opened)).verdict;
    const restored = {};
    for (const name of ["policy", "request", "token"]) restored[name] = await opened.locator(`#${name}`).inputValue();
    await opened.close();
    return { told, verdict, restored, before: (await shown(page)).verdict };
  };

  const first = await share(plain);
  assert.deepEqual(first.restored, plain);
  assert.equal(first.verdict, first.before);

  const stripped = await share(secret);
  assert.match(stripped.told, /It is without authorization, cookie, x-api-key\. .*claims/);
  const text = JSON.stringify(stripped.restored);
  assert.ok(!text.includes(TOKEN) && !text.includes("planted") && !/authorization|cookie|api-key/i.test(text), text);
  // The key's namespace still comes from the claims.
  assert.match(stripped.verdict, /^FORWARDED\n/);
  assert.match(stripped.verdict, /t-acme:shop:user:u1:k/);

  const inDocument = JSON.stringify({ method: "GET", url: "https://a/", headers: [["X-Gitlab-Token", "planted"], ["a", "b"]] });
  assert.deepEqual(JSON.parse((await share({ ...secret, request: inDocument })).restored.request).headers, [["a", "b"]]);

  const unread = await share({ ...secret, request: `${secret.request} 'not closed` });
  assert.equal(unread.restored.request, "");

  await page.getByLabel("Also share the token").check();
  assert.deepEqual((await share(secret)).restored, secret);
  await page.getByLabel("Also share the token").uncheck();

  assert.match(page.url(), /#s=/);
  await page.locator("#token").fill("{}");
  assert.equal(await page.locator("#link").isVisible(), false);
  assert.equal(page.url(), `${server.origin}/`);
});

test("a broken link is told", async () => {
  const opened = await browser.context.newPage();
  await opened.goto(`${server.origin}/#s=AAAA`);
  await opened.getByText("The link cannot be read").waitFor();
  assert.match((await shown(opened)).state, /^Forwarded, with the key t-acme:/);
  await opened.close();
});

test("broken texts are errors, and the next text is answered", async () => {
  const [policy, good] = [await policyOf({ policy: "own-api.json" }), EXAMPLES[0].request.join("\n")];
  const texts = ["", " ", "{", "null", "[]", "7", '""', "\0", "a\0b", "\ud800", "\udc00\ud800", "\ufeff{}", "[".repeat(200_000)];
  texts.push('{"a":'.repeat(200_000), "a".repeat(1_000_000), "curl '", "curl $'\\ud800'", "curl -d", "curl https://a -H 'a: \0'");
  texts.push(`curl https://a -H ${"a".repeat(1_000_000)}`, `curl ${"https://a ".repeat(50_000)}`, `curl https://a/${"../".repeat(100_000)}`);
  texts.push(JSON.stringify({ method: "POST", url: "https://a/", now_unix: 2 ** 64 }), '{"method":"POST","url":"https://a/","lookups":[]}');
  const answers = await page.evaluate(
    async ({ texts, policy, good }) => {
      const worker = new Worker("worker.js");
      const next = () =>
        new Promise((resolve, reject) => {
          worker.onmessage = ({ data }) => resolve(data);
          worker.onerror = (event) => reject(new Error(event.message));
        });
      await next();
      const ask = (policy, request, token) => {
        worker.postMessage(JSON.stringify({ policy, request, token, now_unix_ms: Date.now() }));
        return next();
      };
      const answers = [];
      for (const text of texts) {
        answers.push([await ask(text.toWellFormed(), good, ""), await ask(policy, text.toWellFormed(), ""), await ask(policy, good, text.toWellFormed())]);
      }
      // Half a character, and what is no question at all.
      for (const text of ["\ud800", "", "7", '{"policy": 1}', '{"policy":"","request":"","token":"","now_unix_ms":-1}', '{"policy":"\\ud800"}']) {
        worker.postMessage(text);
        answers.push([await next()]);
      }
      // The examples with characters that are changed, left out or doubled, always the same ones.
      let state = 1;
      const random = (below) => {
        state = (state * 48_271) % 2_147_483_647;
        return state % below;
      };
      const slips = ["", "{", "}", '"', "'", "\\", ":", "\0", "\u{1f9c0}", "$'", "^", "9".repeat(30)];
      const slip = (text) => {
        const at = random(text.length);
        return text.slice(0, at) + slips[random(slips.length)] + text.slice(at + random(3));
      };
      for (let round = 0; round < 2_000; round += 1) {
        answers.push([await ask(random(2) ? slip(policy) : policy, slip(slip(good)), random(9) ? "" : slip('{"sub": "u1"}'))]);
      }
      worker.postMessage("x".repeat(5 << 20));
      const tooLong = await next();
      const last = await ask(policy, good, "");
      worker.terminate();
      return { answers, tooLong, last };
    },
    { texts, policy, good },
  );
  for (const answer of answers.answers.flat()) {
    const { check, explain, error, policy } = JSON.parse(answer);
    assert.ok(explain || error || (policy === "error" && check), answer.slice(0, 300));
  }
  assert.equal(answers.tooLong, null);
  assert.match(JSON.parse(answers.last).explain, /^REFUSED|^FORWARDED/);
});

test("half a character and zero bytes in the fields do no harm", async () => {
  const policy = await policyOf({ policy: "own-api.json" });
  await page.evaluate(() => {
    document.getElementById("policy").value = "{\ud800";
    document.getElementById("policy").dispatchEvent(new Event("input"));
  });
  assert.match((await shown(page)).check, /^error\[not-json\]/);
  await fill(page, { policy, request: "curl https://api.example.com/orders -d 1" });
  assert.match((await shown(page)).verdict, /^REFUSED/);
});

test("an engine that fails is told, and started anew", async () => {
  const before = browser.faults.length;
  const opened = await browser.context.newPage();
  // A stand-in for the engine, which traps when it is asked to.
  const standIn = `onmessage = ({ data }) => {
    if (data.includes("trap")) throw new Error("unreachable");
    postMessage(JSON.stringify({ policy: "fine", findings: [], error: "answered" }));
  };
  postMessage("ready");`;
  await opened.route("**/worker.js", (route) => route.fulfill({ contentType: "text/javascript", body: standIn }));
  await opened.goto(`${server.origin}/`);
  assert.equal((await shown(opened)).verdict, "answered");
  await opened.locator("#request").fill("trap");
  assert.match((await shown(opened)).verdict, /^the engine of this page failed: .*unreachable/);
  await opened.locator("#request").fill("good");
  assert.equal((await shown(opened)).verdict, "answered");
  await opened.close();

  const without = await browser.context.newPage();
  await without.route("**/playground.wasm", (route) => route.fulfill({ status: 404 }));
  await without.goto(`${server.origin}/`);
  await without.getByText("the engine of this page failed").waitFor();
  await without.close();
  // These faults were planned.
  browser.faults.length = before;
});

for (const width of [390, 1280]) {
  test(`nothing is wider than a page of ${width} px`, async () => {
    await page.setViewportSize({ width, height: 900 });
    for (const index of EXAMPLES.keys()) {
      await page.getByLabel("Example").selectOption(String(index));
      await shown(page);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), EXAMPLES[index].name);
    }
  });
}

test("the page requests nothing from others, and cannot", async () => {
  const others = browser.requests.filter((url) => new URL(url).origin !== server.origin);
  assert.deepEqual(others, []);
  assert.ok(browser.requests.some((url) => url.endsWith("/playground.wasm")));
  assert.deepEqual(browser.faults.filter((fault) => !fault.includes("favicon.ico")), []);
  const other = await serve();
  const tried = await page.evaluate((url) => fetch(url).then(() => "reached", () => "refused"), `${other.origin}/`);
  other.close();
  assert.equal(tried, "refused");
});
