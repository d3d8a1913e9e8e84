import assert from "node:assert/strict";
import { test } from "node:test";
import { go, open, pageUnderTest, settled, verdict } from "./browser.js";

pageUnderTest();

const BASE = "model=llama-3.1-8b&cluster=8xH100&seq_len=4096&global_batch=64";
const nested = (/** @type {number} */ depth) => `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`;

/** A fragment, and what the message must say. */
/** @type {[string, string, RegExp][]} */
const LINKS = [
  ["no version", `#${BASE}`, /names no version/],
  ["another version", `#v=99&${BASE}`, /version 99.+reads version 1/],
  [
    "huge numbers",
    "#v=1&model=llama-3.1-8b&cluster=8xH100&seq_len=1e300&global_batch=64",
    /seq_len: .+allowed/,
  ],
  [
    "beyond floating point",
    "#v=1&model=llama-3.1-8b&cluster=8xH100&seq_len=1e999&global_batch=64",
    /seq_len: .+allowed/,
  ],
  [
    "negative numbers",
    "#v=1&model=llama-3.1-8b&cluster=8xH100&seq_len=-5&global_batch=64",
    /seq_len: .+allowed/,
  ],
  ["a wrong type", `#v=1&${BASE}&recipe.ema=perhaps`, /recipe\.ema: .+allowed/],
  ["an unknown word", `#v=1&${BASE}&recipe.method=magic`, /recipe\.method: got "magic"; allowed: .*lora/],
  ["an unknown field", `#v=1&${BASE}&recipe.speed=11`, /recipe\.speed: .+allowed/],
  ["an unknown root", `#v=1&${BASE}&speed=11`, /speed: .+allowed/],
  ["a field that is no path", `#v=1&${BASE}&<b>=1`, /a field that no request has: <b>/],
  ["the prototype", `#v=1&${BASE}&__proto__.polluted=1`, /a field that no request has/],
  ["the prototype inside", `#v=1&${BASE}&recipe.__proto__.polluted=1`, /allowed/],
  ["a path too deep", `#v=1&${BASE}&a.b.c.d.e.f.g.h.i.j.k=1`, /a field that no request has/],
  ["a field as object and word", `#v=1&${BASE}&recipe=1&recipe.method=lora`, /Fits|allowed/],
  [
    "markup",
    "#v=1&model=<img src=x onerror=alert(1)>&cluster=8xH100&seq_len=4096&global_batch=64",
    /model: .+allowed/,
  ],
  ["broken escapes", `#v=1&${BASE}&recipe.method=%E0%A4%A`, /recipe\.method: .+allowed/],
  ["nothing but a version", "#v=1", /allowed|value/],
  [
    "a million machines",
    "#v=1&model=llama-3.1-8b&cluster=99999999999xH100&seq_len=4096&global_batch=64",
    /cluster.+allowed/,
  ],
  [
    "deep nesting",
    `#v=1&model=${encodeURIComponent(nested(5000))}&cluster=8xH100&seq_len=4096&global_batch=64`,
    /allowed/,
  ],
  [
    "deeper nesting",
    `#v=1&model=${encodeURIComponent(nested(20_000))}&cluster=8xH100&seq_len=4096&global_batch=64`,
    /allowed/,
  ],
  [
    "a config with nonsense",
    `#v=1&model=${encodeURIComponent('{"model_type":"llama","hidden_size":-1}')}&cluster=8xH100&seq_len=4096&global_batch=64`,
    /hidden_size: .+allowed/,
  ],
  [
    "a config that is no JSON",
    `#v=1&model=${encodeURIComponent('{"model_type":')}&cluster=8xH100&seq_len=4096&global_batch=64`,
    /model: got a text that is not JSON/,
  ],
  ["too long", `#v=1&${BASE}&x=${"y".repeat(500_000)}`, /at most 400000/],
  [
    "too many fields",
    `#v=1&${BASE}&${Array.from({ length: 400 }, (_, i) => `a${i}=1`).join("&")}`,
    /more than 300 fields/,
  ],
];

for (const [name, fragment, expected] of LINKS) {
  test(`a link with ${name} ends in a clear message`, async () => {
    const { page, faults, close } = await open({ fragment });
    const said = await verdict(page);
    assert.match(said, expected);
    assert.ok(said.length < 6000, `${said.length} characters`);
    assert.deepEqual(faults, []);
    // The page still works.
    await go(page, `#v=1&${BASE}`);
    assert.match(await verdict(page), /Fits/);
    await close();
  });
}

test("a file of 5 MB is refused by its size", async () => {
  const { page, faults, close } = await open();
  await page.locator("input[type=file]").setInputFiles({
    name: "config.json",
    mimeType: "application/json",
    buffer: Buffer.alloc(5_000_000, "{"),
  });
  await page.waitForFunction(() =>
    document.querySelector(".fault:not([hidden])")?.textContent?.includes("5,000,000 bytes"),
  );
  assert.deepEqual(faults, []);
  await close();
});

test("a pasted text of 5 MB is refused without a long pause", async () => {
  const { page, close } = await open();
  await page.getByLabel("Config", { exact: true }).check();
  const started = Date.now();
  await page.evaluate(() => {
    const area = /** @type {HTMLTextAreaElement} */ (document.querySelector("textarea[data-path='model']"));
    area.value = `{"a":"${"y".repeat(5_000_000)}"}`;
    area.dispatchEvent(new Event("input", { bubbles: true }));
  });
  await page.waitForFunction(() =>
    document.querySelector(".fault:not([hidden])")?.textContent?.includes("5,000,008 bytes"),
  );
  assert.ok(Date.now() - started < 3000);
  // The plan of the config that stands there comes later, and says nothing against it.
  await settled(page);
  assert.match((await page.locator(".fault:not([hidden])").textContent()) ?? "", /5,000,008 bytes/);
  await close();
});
