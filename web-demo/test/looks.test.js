import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import { deepened, go, open, pageUnderTest, settled, unfold } from "./browser.js";

pageUnderTest();

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** A set-up that shows every part of the answer. */
const EVERYTHING =
  "#v=1&model=llama-3.1-70b&cluster=4x8xH100-SXM-80GB&seq_len=8192&global_batch=256&run.tokens=1e9&run.price=spot&run.faults=yes&run.offers=true&run.serving=yes&run.deadline_hours=80&recipe.framework=megatron&search.pipeline_parallel=4&why_not.0.sharding=ddp&beside=model=llama-3.1-8b%26cluster=8xH100%26seq_len=8192%26global_batch=64";

/**
 * @param {import("playwright-core").Page} page
 * @param {string} where
 */
async function accessible(page, where) {
  // Injected past the page's policy, which forbids foreign scripts.
  const session = await page.context().newCDPSession(page);
  await session.send("Runtime.evaluate", { expression: axe });
  const found = await session.send("Runtime.evaluate", {
    expression: `axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] })
      .then((r) => JSON.stringify(r.violations.map((v) => [v.id, v.nodes.map((n) => n.html.slice(0, 200) + " " + n.failureSummary)])))`,
    awaitPromise: true,
    returnByValue: true,
  });
  assert.deepEqual(JSON.parse(found.result.value), [], where);
}

for (const dark of [false, true]) {
  test(`axe finds nothing to object to, ${dark ? "dark" : "light"}`, async () => {
    const { page, close } = await open({ dark });
    await deepened(page);
    await accessible(page, "at the start");
    await unfold(page);
    await accessible(page, "unfolded");
    await page.getByLabel("Config", { exact: true }).check();
    await page.getByLabel("In full").check();
    await settled(page);
    await accessible(page, "in full");
    await page.locator(".plans tbody button").nth(1).click();
    await page.getByRole("button", { name: "Keep this set-up beside" }).click();
    await deepened(page);
    await unfold(page);
    await accessible(page, "a plan adopted, a set-up kept, every table open");
    await page.locator("[data-key='figure-memory']").click();
    await accessible(page, "a figure opened");
    await page.keyboard.press("Escape");
    await page.locator("[data-path='seq_len']").fill("many");
    await settled(page);
    await accessible(page, "with a fault");
    await go(page, EVERYTHING);
    await deepened(page);
    await accessible(page, "a pipeline on spot machines");
    await close();
  });
}

test("axe finds nothing to object to when nothing fits, on a phone", async () => {
  const { page, close } = await open({
    width: 320,
    fragment: "#v=1&model=llama-3.1-70b&cluster=2xa10&seq_len=4096&global_batch=8",
  });
  await accessible(page, "nothing fits");
  await close();
});

for (const width of [320, 768, 1280]) {
  for (const dark of [false, true]) {
    test(`nothing is cut off at ${width} pixels, ${dark ? "dark" : "light"}`, async () => {
      const { page, close } = await open({ width, dark, fragment: dark ? EVERYTHING : "" });
      await deepened(page);
      await unfold(page);
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(over <= 0, `${over} pixels too wide`);
      const cut = await page.evaluate(() =>
        [...document.querySelectorAll("button, label, legend, h1, h2, h3, p, dt, dd, .name, .amount, strong")]
          .filter(
            (it) =>
              it.checkVisibility() &&
              !it.closest(".scroll, .visually-hidden") &&
              it.scrollWidth > it.clientWidth + 1 &&
              getComputedStyle(it).display !== "inline",
          )
          .map((it) => it.textContent),
      );
      assert.deepEqual(cut, []);
      await page.evaluate(() => {
        for (const it of document.querySelectorAll("details")) it.open = false;
      });
      mkdirSync("test/shots", { recursive: true });
      await page.screenshot({ path: `test/shots/${width}-${dark ? "dark" : "light"}.png`, fullPage: true });
      await close();
    });
  }
}

test("it prints: the answer without the controls, on white", async () => {
  const { page, close } = await open({ dark: true });
  await page.emulateMedia({ media: "print" });
  assert.ok(await page.locator(".verdict").isVisible());
  assert.ok(await page.locator(".part-memory .bar-large").isVisible());
  assert.ok(await page.locator(".part-tradeoff .plot").isVisible());
  assert.ok(!(await page.locator(".part-share").isVisible()));
  const pdf = await page.pdf({ format: "A4" });
  assert.ok(pdf.length > 20_000);
  await close();
});

test("nothing moves by itself", async () => {
  const { page, close } = await open();
  const moving = await page.evaluate(() => document.getAnimations().length);
  assert.equal(moving, 0);
  const shift = await page.evaluate(
    () =>
      new Promise((done) => {
        let sum = 0;
        new PerformanceObserver((list) => {
          for (const entry of list.getEntries()) sum += /** @type {{ value?: number }} */ (entry).value ?? 0;
        }).observe({ type: "layout-shift", buffered: true });
        setTimeout(() => done(sum), 500);
      }),
  );
  assert.ok(Number(shift) < 0.1, `layout shift ${shift}`);
  await close();
});
