import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { open, pageUnderTest, settled } from "./browser.js";

pageUnderTest();

/** Below this share of a core a wall clock measures the machine's other work, not the page. */
const QUIET = 0.8;

/** The share of a core that a busy loop gets at this moment: 1 on an idle machine. */
function shareOfCore() {
  const [cpu, wall] = [process.cpuUsage(), performance.now()];
  while (performance.now() - wall < 150);
  const used = process.cpuUsage(cpu);
  return (used.user + used.system) / 1000 / (performance.now() - wall);
}

/**
 * Measures until a time is short enough, six times at most. On a machine that was never quiet
 * meanwhile the test is skipped, with the times in its reason.
 * @param {import("node:test").TestContext} t
 * @param {number} limit in milliseconds
 * @param {() => Promise<number>} measure
 */
async function within(t, limit, measure) {
  /** @type {number[]} */
  const times = [];
  let quiet = false;
  for (let i = 0; i < 6 && !times.some((time) => time < limit); i++) {
    const before = shareOfCore();
    times.push(Math.round(await measure()));
    quiet ||= Math.min(before, shareOfCore()) > QUIET;
  }
  console.log(`${t.name}: ${times.join(", ")} ms`);
  if (times.some((time) => time < limit)) return;
  if (quiet) assert.fail(`${times.join(", ")} ms`);
  t.skip(`other work took the cores: ${times.join(", ")} ms`);
}

test("script under 60 kB, zipped", () => {
  const size = (/** @type {string} */ ending) =>
    readdirSync("dist/assets")
      .filter((file) => file.endsWith(ending))
      .reduce((sum, file) => sum + gzipSync(readFileSync(`dist/assets/${file}`), { level: 9 }).length, 0);
  // The module's own limit is kept where it is built.
  console.log(`script ${size(".js")} B, style ${size(".css")} B, module ${size(".wasm")} B, zipped`);
  assert.ok(size(".js") < 60_000);
});

test("a first plan within 300 ms of loading on a CPU slowed four times", async (t) => {
  await within(t, 300, async () => {
    const { page, close } = await open({ answered: false, fragment: "icon.svg" });
    const session = await page.context().newCDPSession(page);
    await session.send("Emulation.setCPUThrottlingRate", { rate: 4 });
    await page.goto(page.url().replace("icon.svg", ""), { waitUntil: "commit" });
    await settled(page);
    const time = await page.evaluate(() => {
      const [load] = /** @type {PerformanceNavigationTiming[]} */ (
        performance.getEntriesByType("navigation")
      );
      const [mark] = performance.getEntriesByName("first plan");
      return (mark?.startTime ?? Number.POSITIVE_INFINITY) - (load?.domContentLoadedEventEnd ?? 0);
    });
    await close();
    return time;
  });
});

test("typing makes no task longer than 50 ms", async (t) => {
  await within(t, 50, async () => {
    const { page, close } = await open();
    await page.evaluate(() => {
      const seen = /** @type {{ long: number[] }} */ (/** @type {unknown} */ (window));
      seen.long = [];
      new PerformanceObserver((list) => seen.long.push(...list.getEntries().map((e) => e.duration))).observe({
        type: "longtask",
      });
    });
    for (const [path, text] of /** @type {const} */ ([
      ["seq_len", "16384"],
      ["global_batch", "1024"],
    ])) {
      await page.locator(`[data-path='${path}']`).click();
      await page.keyboard.press("Control+A");
      await page.keyboard.type(text, { delay: 40 });
    }
    await settled(page);
    await page.waitForTimeout(200);
    const long = await page.evaluate(
      () => /** @type {{ long: number[] }} */ (/** @type {unknown} */ (window)).long,
    );
    await close();
    return Math.max(0, ...long);
  });
});
