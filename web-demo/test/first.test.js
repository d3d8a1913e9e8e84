import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "shardwise";
import { deepened, open, pageUnderTest, settled, verdict } from "./browser.js";

pageUnderTest();

const FIRST = /shardwise_first_bg.*\.wasm/;
const WHOLE = /shardwise_bg.*\.wasm/;
/** A set-up that ordinary first plans have nothing of. */
const RARE = "#v=1&model=mamba-130m&cluster=4xtrn1&seq_len=1024&global_batch=16&recipe.optimizer=lion";

/**
 * Opens the page with the whole module held back; `release` lets it come.
 * @param {{ fragment?: string, answered?: boolean }} [options]
 */
async function withoutTheWhole(options) {
  let release = () => {};
  const held = new Promise((done) => {
    release = () => done(undefined);
  });
  /** @type {string[]} */
  const asked = [];
  const opened = await open({
    ...options,
    prepare: async (page) => {
      page.on("request", (r) => r.url().endsWith(".wasm") && asked.push(r.url()));
      await page.route(WHOLE, async (route) => {
        await held;
        await route.continue();
      });
    },
  });
  return { ...opened, asked, release };
}

test("the first plan comes of the first module, before the whole one is asked for", async () => {
  const { page, faults, asked, release, close } = await withoutTheWhole();
  assert.match(await verdict(page), /^.?\s?Fits/);
  // Another ordinary plan, still without the whole module.
  await page.locator("[data-path='global_batch']").fill("128");
  await settled(page);
  assert.equal(await page.locator(".figures button").count(), 6);
  const plans = await page.locator(".plans tbody button").allInnerTexts();
  release();
  await deepened(page);
  assert.deepEqual(
    asked.map((url) => (FIRST.test(url) ? "first" : "whole")),
    ["first", "whole"],
  );
  const reply = (await load()).ask("plan", {
    model: "llama-3.1-8b",
    cluster: "8xH100-SXM-80GB",
    seq_len: 8192,
    global_batch: 128,
    run: { tokens: 10e9 },
  });
  assert.ok("answer" in reply);
  assert.deepEqual(
    plans,
    reply.answer.ranked.map((line) => line.name),
  );
  assert.deepEqual(faults, []);
  await close();
});

test("what the first module cannot answer waits for the whole one", async () => {
  const { page, faults, release, close } = await withoutTheWhole({ fragment: RARE, answered: false });
  await page.waitForRequest(WHOLE);
  await page.waitForTimeout(300);
  assert.equal(await page.locator("#answer").getAttribute("aria-busy"), "true");
  release();
  await settled(page);
  assert.match(await verdict(page), /Fits|Nothing fits/);
  assert.match(await page.locator(".resolved").first().innerText(), /^mamba/);
  // From now on the whole module answers.
  await page.locator("[data-path='global_batch']").fill("32");
  await settled(page);
  assert.match(await verdict(page), /Fits|Nothing fits/);
  assert.deepEqual(faults, []);
  await close();
});

test("the newest question is the one that the whole module answers", async () => {
  const { page, release, close } = await withoutTheWhole({ fragment: RARE, answered: false });
  await page.waitForRequest(WHOLE);
  await page.locator("[data-path='seq_len']").fill("many");
  release();
  await settled(page);
  assert.match(await page.locator(".fault:visible").innerText(), /^seq_len: /);
  await close();
});

test("a whole module that does not come is said in words, and asked for again", async () => {
  const { page, close } = await open({ prepare: (page) => page.route(WHOLE, (route) => route.abort()) });
  assert.match(await verdict(page), /Fits/);
  await page.locator("[data-path='seq_len']").fill("many");
  await page.waitForFunction(() =>
    /could not be loaded/.test(document.querySelector(".verdict")?.textContent ?? ""),
  );
  await settled(page);
  assert.match(await verdict(page), /The planner could not be loaded: .+\. The next change tries again\./);
  // What the first module knows is answered all the same.
  await page.locator("[data-path='seq_len']").fill("4096");
  await page.waitForFunction(() => /Fits/.test(document.querySelector(".verdict")?.textContent ?? ""));
  await page.unroute(WHOLE);
  await page.locator("[data-path='seq_len']").fill("few");
  await page.locator(".fault:visible").waitFor();
  await close();
});
