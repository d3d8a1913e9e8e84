import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "shardwise";
import { deepened, fields, open, pageUnderTest, settled, unfold, verdict } from "./browser.js";

pageUnderTest();

const START = {
  model: "llama-3.1-8b",
  cluster: "8xH100-SXM-80GB",
  seq_len: 8192,
  global_batch: 64,
  run: { tokens: 10e9 },
};
const PIPELINE =
  "#v=1&model=llama-3.1-70b&cluster=4x8xH100-SXM-80GB&seq_len=8192&global_batch=256&run.tokens=1e9&recipe.framework=megatron&search.pipeline_parallel=4";

/** @param {import("shardwise").PlanRequest} request */
async function planned(request) {
  const reply = (await load()).ask("plan", request);
  assert.ok("answer" in reply);
  return reply.answer;
}

/**
 * @param {import("playwright-core").Page} page
 * @param {string} part
 */
const marks = (page, part) => page.locator(`.part-${part} .mark`);

test("a mark of time against money is adopted, with the pointer and with the keys", async () => {
  const { front } = await planned(START);
  const { page, faults, close } = await open();
  await deepened(page);
  assert.equal(await page.locator(".part-tradeoff .mark-dot").count(), front.length);
  const last = front.at(-1);
  const label = await page.locator(`[data-key='point-${front.length - 1}']`).getAttribute("aria-label");
  assert.ok(label?.startsWith(`${last?.name}, micro-batch ${last?.layout.micro_batch}`), label ?? "");
  // Marks may lie on each other: the topmost at its place is the one that is meant.
  await page.locator(`[data-key='point-${front.length - 1}']`).dispatchEvent("click");
  await settled(page);
  assert.ok((await verdict(page)).includes(`${last?.name}, micro-batch ${last?.layout.micro_batch}`));
  assert.equal((await fields(page)).get("layout.micro_batch"), String(last?.layout.micro_batch));
  await deepened(page);
  const stop = page.locator(".part-tradeoff .mark[tabindex='0']");
  assert.equal(await stop.count(), 1, "one stop for the tab key");
  await stop.focus();
  await page.keyboard.press("ArrowLeft");
  const chosen = await page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? "");
  await page.keyboard.press("Enter");
  await settled(page);
  if (chosen.includes("GPUs,")) assert.notEqual((await fields(page)).get("cluster"), null);
  else assert.ok((await verdict(page)).includes(chosen.split(", micro-batch")[0] ?? "?"), chosen);
  assert.deepEqual(faults, []);
  await close();
});

test("the table behind time and money adopts too, and other counts of machines come and go", async () => {
  const { page, close } = await open();
  await deepened(page);
  assert.ok((await page.locator(".part-tradeoff .mark-square").count()) > 0);
  await page.getByLabel("With the best plans on other counts").uncheck();
  assert.equal(await page.locator(".part-tradeoff .mark-square").count(), 0);
  await page.getByLabel("With the best plans on other counts").check();
  await page.locator(".part-tradeoff summary").click();
  const second = page.locator(".part-tradeoff tbody button").nth(1);
  const name = (await second.innerText()).split(", micro-batch")[0] ?? "?";
  await second.click();
  await settled(page);
  assert.ok((await verdict(page)).includes(name));
  await page.getByRole("button", { name: "Back to the best" }).click();
  await deepened(page);
  await page.locator(".part-tradeoff .mark-square").first().dispatchEvent("click");
  await settled(page);
  assert.match((await fields(page)).get("cluster") ?? "", /^\d+x8xH100-SXM-80GB$/);
  await close();
});

test("the scaling curve is the core's, with its knee; a mark takes that many machines", async () => {
  const { scaling } = await planned({ ...START, search: { scaling: true } });
  assert.ok(scaling && scaling.points.length > 2);
  const { page, close } = await open();
  await deepened(page);
  const part = page.locator(".part-scaling");
  assert.match(
    await part.innerText(),
    scaling.knee === null ? /No knee/ : new RegExp(`The knee is at ${scaling.knee} GPUs`),
  );
  assert.equal(await marks(page, "scaling").count(), scaling.points.length);
  await part.locator("summary").click();
  const rates = await part.locator("tbody tr td:nth-child(4)").allInnerTexts();
  assert.deepEqual(
    rates,
    scaling.points.map((p) => Math.round(p.tokens_per_second).toLocaleString("en-US")),
  );
  const more = scaling.points[1];
  await part.locator(`[data-key='curve-${more?.nodes}']`).dispatchEvent("click");
  await settled(page);
  assert.equal((await fields(page)).get("cluster"), `${more?.nodes}x8xH100-SXM-80GB`);
  assert.ok((await verdict(page)).includes(more?.name ?? "?"));
  await deepened(page);
  await part.locator("[data-key='row-nodes-1']").click();
  await settled(page);
  assert.equal((await fields(page)).get("cluster"), "8xH100-SXM-80GB");
  await close();
});

test("spot is reckoned with losses: expected time and money with their spread", async () => {
  const { page, close } = await open();
  assert.match(await page.locator(".part-outlook").innerText(), /no spread/);
  await page.locator("[data-path='run.price']").selectOption("spot");
  await settled(page);
  assert.equal((await fields(page)).get("run.faults"), "yes");
  assert.ok(await page.getByLabel("Reckon with lost machines").isChecked());
  const { best } = await planned({ ...START, run: { tokens: 10e9, price: "spot", faults: {} } });
  const outlook = best.run?.outlook;
  assert.ok(outlook?.ledger && outlook.cost_spread);
  const money = (/** @type {number} */ x) =>
    x >= 1000 ? `$${Math.round(x).toLocaleString("en-US")}` : `$${x.toFixed(2)}`;
  const lanes = page.locator(".part-outlook .spread-lane");
  const said = (await lanes.nth(1).getAttribute("aria-label")) ?? "";
  assert.ok(said.includes(`expected ${money(outlook.ledger.total)}`), said);
  assert.ok(said.includes(`nine in ten below ${money(outlook.cost_spread.p90)}`), said);
  assert.ok((await verdict(page)).includes(`expected, about ${money(outlook.ledger.total)}`));
  await page.locator("[data-key='figure-cost']").click();
  assert.match(await page.locator("dialog[open]").innerText(), /expected cost.+retried saves/is);
  await page.keyboard.press("Escape");
  await page.locator("[data-key='time-redone']").click();
  assert.match(await page.locator("dialog[open]").innerText(), /expected time/i);
  await page.keyboard.press("Escape");
  await page.locator(".part-outlook summary").click();
  // The table is drawn when the browser tells that it was opened, a moment after the click.
  const rows = page.locator(".part-outlook .behind-table tbody tr");
  await rows.first().waitFor();
  assert.equal(await rows.count(), 2);
  await page.getByLabel("Reckon with lost machines").uncheck();
  await settled(page);
  assert.equal((await fields(page)).get("run.faults"), null);
  await page.getByRole("button", { name: "Reckon with lost machines" }).click();
  await settled(page);
  assert.equal(await lanes.count(), 2);
  await close();
});

test("the pipeline is drawn, each stage's order stands in the table; without one nothing is", async () => {
  const { page, close } = await open({ fragment: PIPELINE });
  const { best } = await planned({
    model: "llama-3.1-70b",
    cluster: "4x8xH100-SXM-80GB",
    seq_len: 8192,
    global_batch: 256,
    run: { tokens: 1e9 },
    recipe: { framework: "megatron" },
    search: { pipeline_parallel: [4] },
  });
  assert.equal(best.layout.pipeline_parallel, 4);
  const label = (await page.locator(".schedule").getAttribute("aria-label")) ?? "";
  assert.ok(label.startsWith(`Schedule ${best.layout.pipeline_schedule}: 4 stages`), label);
  assert.ok((await page.locator(".schedule path").count()) >= 2);
  await page.locator("[data-key='behind-pipeline']").click();
  const orders = await page.locator(".part-step .behind[open] tbody td").allInnerTexts();
  assert.equal(orders.length, 4);
  for (const order of orders) assert.match(order, /^F1.* B1/);
  await close();
  const single = await open();
  assert.equal(await single.page.locator(".schedule").count(), 0);
  await single.close();
});

test("behind every chart stands a table", async () => {
  const { page, close } = await open({ fragment: `${PIPELINE}&run.faults=yes` });
  await deepened(page);
  await unfold(page);
  for (const part of ["memory", "step", "tradeoff", "scaling", "outlook"]) {
    const charts = await page
      .locator(`.part-${part} :is(.bar-large, .plot, .schedule, .spread, .phases)`)
      .count();
    assert.ok(charts > 0, `${part} draws`);
    const tables = page.locator(`.part-${part} .behind-table`);
    assert.ok((await tables.count()) > 0, `${part} has a table`);
    for (const table of await tables.all()) assert.ok((await table.locator("tbody tr").count()) > 0);
  }
  // Open they stay, when the answer changes.
  await page.locator("[data-path='seq_len']").fill("4096");
  await settled(page);
  assert.ok(await page.locator(".part-memory .behind-table").first().isVisible());
  await close();
});

test("why not: strategies, neighbours, and whatever is asked about", async () => {
  const { page, close } = await open();
  await page.getByRole("button", { name: "Ask about another layout" }).click();
  assert.equal(
    await page.evaluate(() => document.activeElement?.getAttribute("data-path")),
    "why_not.0.sharding",
  );
  await page.locator("[data-path='why_not.0.sharding']").selectOption("ddp");
  await settled(page);
  const { why_not, rejected, neighbours } = await planned({ ...START, why_not: [{ sharding: "ddp" }] });
  const text = await page.locator(".part-why-not").innerText();
  assert.ok(text.includes(`Asked about\n${why_not[0]?.reason}`), text);
  for (const it of rejected) assert.ok(text.includes(it.reason), it.reason);
  await page.locator("[data-key='behind-near']").click();
  // What is out of sight is drawn once it is unfolded.
  await page.waitForFunction(
    (many) => document.querySelectorAll(".part-why-not details li").length === many,
    neighbours.length,
  );
  await page.locator("[data-key='rejected-0']").click();
  await settled(page);
  assert.match(await verdict(page), /^✕ Does not fit: DDP/);
  await close();
});

test("of a layout in use it says what to change first", async () => {
  const { page, close } = await open({
    fragment:
      "#v=1&model=llama-3.1-8b&cluster=8xH100-SXM-80GB&seq_len=8192&global_batch=64&run.tokens=10e9&layout.sharding=zero3&layout.micro_batch=1&layout.recompute=full",
  });
  const first = page.locator("[data-key='change-0']");
  assert.match(await page.locator(".part-better li").first().innerText(), /saves .+ a step, \$/);
  const before = await page.locator("[data-key='figure-step'] strong").innerText();
  await first.click();
  await settled(page);
  assert.ok(
    Number.parseFloat(await page.locator("[data-key='figure-step'] strong").innerText()) <
      Number.parseFloat(before),
  );
  await close();
});

test("what if: network, batch and price, as the core says", async () => {
  const { sensitivity } = await planned({ ...START, search: { sensitivity: true } });
  const { page, close } = await open();
  await deepened(page);
  assert.deepEqual(
    await page.locator(".what-if tbody th").allInnerTexts(),
    sensitivity.map((line) => line.change),
  );
  await close();
});

test("other machines to choose from are weighed too", async () => {
  const { page, close } = await open({
    fragment:
      "#v=1&model=llama-3.1-8b&cluster=8xH100&alternatives=8xH200,8xA100-SXM4-80GB&seq_len=8192&global_batch=64&run.tokens=1e9",
  });
  const { best } = await planned({
    ...START,
    cluster: "8xH100",
    alternatives: ["8xH200", "8xA100-SXM4-80GB"],
    run: { tokens: 1e9 },
  });
  assert.ok((await page.locator(".resolved").nth(1).innerText()).includes(best.cluster.accelerator));
  await page.locator(".part-tradeoff .mark-dot").first().dispatchEvent("click");
  await settled(page);
  assert.match(await verdict(page), /Fits/);
  await close();
});

test("serving, a deadline and the ways of paying are shown when asked for", async () => {
  const { page, close } = await open({
    fragment:
      "#v=1&model=llama-3.1-8b&cluster=8xH100&seq_len=8192&global_batch=64&run.tokens=1e9&run.serving=yes&run.offers=true&run.deadline_hours=10&run.faults=yes",
  });
  assert.match(await page.locator(".part-serving").innerText(), /Memory with one sequence\s+[\d.]+ GiB of/);
  assert.match(
    await page.locator(".part-outlook").innerText(),
    /Ends within 10\.00 h with a chance of [\d.]+ %/,
  );
  const offers = await page.locator(".offers tbody th").allInnerTexts();
  assert.ok(offers.length >= 2);
  assert.equal(new Set(offers).size, offers.length, "each offer says whose it is");
  await close();
});

test("when nothing fits the nearest changes are named", async () => {
  const { page, close } = await open({
    fragment: "#v=1&model=llama-3.1-70b&cluster=8xH100&seq_len=8192&global_batch=64",
  });
  const { nearest_changes } = await planned({
    model: "llama-3.1-70b",
    cluster: "8xH100",
    seq_len: 8192,
    global_batch: 64,
  });
  assert.ok(nearest_changes.length > 0);
  assert.deepEqual(await page.locator(".part-changes li").allInnerTexts(), nearest_changes);
  assert.ok((await verdict(page)).includes(`Would fit with ${nearest_changes[0]}`));
  await close();
});
