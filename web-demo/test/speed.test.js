import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { open, pageUnderTest, settled } from "./browser.js";

pageUnderTest();

test("script under 60 kB and module under 150 kB, zipped", () => {
  const size = (/** @type {string} */ ending) =>
    readdirSync("dist/assets")
      .filter((file) => file.endsWith(ending))
      .reduce((sum, file) => sum + gzipSync(readFileSync(`dist/assets/${file}`), { level: 9 }).length, 0);
  const [script, style, module] = [size(".js"), size(".css"), size(".wasm")];
  console.log(`script ${script} B, style ${style} B, module ${module} B, zipped`);
  assert.ok(script < 60_000);
  assert.ok(module < 150_000);
});

test("a first plan within 300 ms of loading on a CPU slowed four times", async () => {
  const times = [];
  for (let i = 0; i < 3; i++) {
    const { page, close } = await open({ answered: false, fragment: "offline.js" });
    const session = await page.context().newCDPSession(page);
    await session.send("Emulation.setCPUThrottlingRate", { rate: 4 });
    await page.goto(page.url().replace("offline.js", ""), { waitUntil: "commit" });
    await settled(page);
    times.push(
      await page.evaluate(() => {
        const [load] = /** @type {PerformanceNavigationTiming[]} */ (
          performance.getEntriesByType("navigation")
        );
        const [mark] = performance.getEntriesByName("first plan");
        return Math.round(
          (mark?.startTime ?? Number.POSITIVE_INFINITY) - (load?.domContentLoadedEventEnd ?? 0),
        );
      }),
    );
    await close();
  }
  console.log(`first plan after ${times.join(", ")} ms`);
  assert.ok(Math.min(...times) < 300, String(times));
});

test("typing makes no task longer than 50 ms", async () => {
  const { page, close } = await open();
  await page.evaluate(() => {
    const seen = /** @type {{ long: number[] }} */ (/** @type {unknown} */ (window));
    seen.long = [];
    new PerformanceObserver((list) =>
      seen.long.push(...list.getEntries().map((e) => Math.round(e.duration))),
    ).observe({ type: "longtask" });
  });
  await page.locator("[data-path='seq_len']").click();
  await page.keyboard.press("Control+A");
  await page.keyboard.type("16384", { delay: 40 });
  await page.locator("[data-path='global_batch']").click();
  await page.keyboard.press("Control+A");
  await page.keyboard.type("1024", { delay: 40 });
  await settled(page);
  await page.waitForTimeout(200);
  assert.deepEqual(await page.evaluate(() => /** @type {any} */ (window).long), []);
  await close();
});
