import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "shardwise";
import { address, deepened, fields, open, pageUnderTest, settled, verdict } from "./browser.js";

pageUnderTest();

test("with the keyboard alone: a figure opens, closes, and gives the focus back", async () => {
  const { page, close } = await open();
  await page.keyboard.press("Tab");
  assert.match(await page.evaluate(() => document.activeElement?.textContent ?? ""), /To the answer/);
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute("data-key")), "figure-memory");
  await page.keyboard.press("Enter");
  const dialog = page.locator("dialog[open]");
  assert.match(await dialog.innerText(), /parameters/);
  assert.ok((await dialog.locator("tbody tr").count()) >= 5);
  for (const row of await dialog.locator("tbody tr").all()) {
    const cells = await row.locator("td").allInnerTexts();
    assert.ok(
      cells.every((cell) => cell.trim() !== ""),
      `amount, formula and source: ${cells}`,
    );
  }
  await page.keyboard.press("Escape");
  assert.equal(await dialog.count(), 0);
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute("data-key")), "figure-memory");
  await close();
});

test("every figure, part and phase opens into its terms", async () => {
  const { page, faults, close } = await open();
  const openers = page.locator("[aria-haspopup='dialog']");
  const count = await openers.count();
  assert.ok(count > 25, `${count} figures open`);
  for (let i = 0; i < count; i++) {
    await openers.nth(i).click();
    assert.notEqual(await page.locator("dialog[open] h2").innerText(), "");
    await page.locator("dialog .close").click();
  }
  assert.deepEqual(faults, []);
  await close();
});

test("a plan of the list is adopted, kept in the address, and let go", async () => {
  const { page, close } = await open();
  const before = await verdict(page);
  const second = page.locator(".plans tbody button").nth(1);
  const name = await second.innerText();
  await second.focus();
  await page.keyboard.press("Enter");
  await settled(page);
  assert.ok((await verdict(page)).includes(`: ${name}, `), await verdict(page));
  assert.equal(
    await page.evaluate(() => document.activeElement?.textContent),
    name,
    "the focus stays on the plan",
  );
  assert.equal(await page.locator(".plans button[aria-pressed='true']").innerText(), name);
  assert.notEqual((await fields(page)).get("layout.sharding"), null);
  await page.reload();
  await settled(page);
  assert.ok((await verdict(page)).includes(name));
  await page.getByRole("button", { name: "Back to the best" }).click();
  await settled(page);
  assert.equal(await verdict(page), before);
  assert.equal((await fields(page)).get("layout.sharding"), null);
  await close();
});

test("two set-ups stand side by side, also in the address", async () => {
  const { page, close } = await open();
  await page.getByRole("button", { name: "Keep this set-up beside" }).click();
  await settled(page);
  await page.locator("[data-path='global_batch']").fill("128");
  await settled(page);
  const row = async (/** @type {string} */ name) => {
    await deepened(page);
    return page.locator(".compare tbody tr", { hasText: name }).first().locator("td").allInnerTexts();
  };
  const batches = () => row("Batch");
  assert.deepEqual(await batches(), ["128 × 8,192 tokens", "64 × 8,192 tokens"]);
  const core = await load();
  const plan = (/** @type {number} */ global_batch) => ({
    plan: {
      model: "llama-3.1-8b",
      cluster: "8xH100-SXM-80GB",
      seq_len: 8192,
      global_batch,
      run: { tokens: 10e9 },
    },
  });
  const reply = core.ask("compare", { requests: [plan(128), plan(64)] });
  assert.ok("answer" in reply);
  const costs = reply.answer.lines.find((line) => line.name === "run cost");
  assert.deepEqual(
    (await row("Run cost")).map((text) => text.replace(/ ×.*/, "")),
    costs?.values.map((value) => `$${Math.round(value ?? 0).toLocaleString("en-US")}`),
  );
  assert.ok(!(await page.locator(".compare tr.term").first().isVisible()));
  await page.getByLabel("With every term").check();
  assert.ok(await page.locator(".compare tr.term").first().isVisible());
  await page.waitForTimeout(250);
  await page.reload();
  await settled(page);
  assert.deepEqual(await batches(), ["128 × 8,192 tokens", "64 × 8,192 tokens"]);
  await page.getByRole("button", { name: "Edit kept set-up 1" }).click();
  await settled(page);
  assert.deepEqual(await batches(), ["64 × 8,192 tokens", "128 × 8,192 tokens"]);
  await page.getByRole("button", { name: "Keep this set-up beside" }).click();
  await settled(page);
  assert.equal((await batches()).length, 3);
  assert.ok(await page.getByRole("button", { name: "Keep this set-up beside" }).isDisabled());
  await page.getByRole("button", { name: "Drop kept set-up 2" }).click();
  await settled(page);
  await page.getByRole("button", { name: "Drop kept set-up 1" }).click();
  await settled(page);
  assert.equal(await page.locator(".compare").count(), 0);
  await close();
});

test("nothing fits: what is missing, and what would fit", async () => {
  const { page, close } = await open({
    fragment: "#v=1&model=llama-3.1-70b&cluster=2xa10&seq_len=4096&global_batch=8",
  });
  assert.match(await verdict(page), /^✕ Nothing fits\. Nearest: .+ GiB too much/);
  assert.equal(await page.locator(".plans").count(), 0);
  assert.ok((await page.locator(".part-why-not li").count()) > 2);
  await close();
});

test("the set-up can be taken along in every form", async () => {
  const { page, close } = await open({
    fragment:
      "#v=1&model=llama-3.1-8b&cluster=8xH100&seq_len=4096&global_batch=64&run.tokens=1e9&recipe.method=lora&recipe.ema=true",
  });
  const copied = async (/** @type {string} */ name) => {
    await page.locator(`[data-share='${name}']`).click();
    await page.waitForFunction(
      (name) => document.querySelector(".said")?.textContent?.startsWith(name),
      name,
    );
    return page.evaluate(() => navigator.clipboard.readText());
  };
  const request = JSON.parse(await copied("JSON"));
  const core = await load();
  const reply = core.ask("plan", request);
  assert.ok("answer" in reply);
  assert.ok((await verdict(page)).includes(reply.answer.best.name));
  assert.equal(request.recipe.method, "lora");
  const python = await copied("Python");
  assert.match(python, /^import shardwise\n/);
  assert.match(python, /recipe=\{"method": "lora", "ema": True\}/);
  const command = await copied("Command line");
  assert.match(command, /^shardwise plan llama-3\.1-8b/);
  assert.match(command, /--on 8xH100/);
  assert.match(command, /--set recipe\.ema=true/);
  const table = (await copied("Markdown")).split("\n").filter((line) => line.startsWith("|"));
  assert.equal(table.length, reply.answer.ranked.length + 2);
  const yaml = await copied("Accelerate");
  assert.match(yaml, /^compute_environment: LOCAL_MACHINE\ndistributed_type: \w+\nmixed_precision: bf16\n/);
  const link = await copied("Link");
  assert.ok(link.startsWith(`${address}#v=1&`));
  await close();
  const again = await open({ fragment: link.slice(address.length) });
  assert.ok((await verdict(again.page)).includes(reply.answer.best.name));
  await again.close();
});

test("kept on the device only when asked, and then it works without a network", async () => {
  const { page, close } = await open();
  const kept = () =>
    page.evaluate(async () => [
      (await navigator.serviceWorker.getRegistrations()).length,
      (await caches.keys()).length,
    ]);
  assert.deepEqual(await kept(), [0, 0]);
  assert.deepEqual(await page.evaluate(() => [localStorage.length, sessionStorage.length, document.cookie]), [
    0,
    0,
    "",
  ]);
  const box = page.getByLabel("Keep this page on this device");
  await box.check();
  await page.waitForFunction(() =>
    document.querySelector(".offline [role=status]")?.textContent?.includes("Kept"),
  );
  await page.context().setOffline(true);
  await page.reload();
  await settled(page);
  assert.match(await verdict(page), /Fits/);
  await page.context().setOffline(false);
  await page.waitForFunction(
    () => /** @type {HTMLInputElement} */ (document.querySelector(".offline input"))?.checked,
  );
  await box.uncheck();
  await page.waitForFunction(() =>
    document.querySelector(".offline [role=status]")?.textContent?.includes("Nothing"),
  );
  assert.deepEqual(await kept(), [0, 0]);
  await close();
});
