import { test } from "node:test";
import { browser, open, pageUnderTest, settled } from "../test/browser.js";

pageUnderTest();

/**
 * Measures six times and prints the times beside what is aimed at. A measurement, not a check: a
 * wall clock also measures the machine's other work, which is why the processor's time stands beside it.
 * @param {import("node:test").TestContext} t
 * @param {number} aim in milliseconds
 * @param {() => Promise<{ wall: number, processor: number }>} measure
 */
async function within(t, aim, measure) {
  /** @type {{ wall: number, processor: number }[]} */
  const times = [];
  for (let i = 0; i < 6; i++) times.push(await measure());
  const list = (/** @type {"wall" | "processor"} */ key) => times.map((it) => Math.round(it[key])).join(", ");
  console.log(`${t.name}: ${list("wall")} ms; of the processor ${list("processor")} ms (aim ${aim} ms)`);
}

/** @typedef {{ name: string, ph: string, pid: number, tid: number, ts: number, tdur?: number, args: { name?: string } }} TraceEvent */

/**
 * The tasks of the page's own threads while something is done, each with the time it held a processor.
 * @param {import("playwright-core").Page} page
 * @param {() => Promise<void>} act
 */
async function traced(page, act) {
  await browser.startTracing(page, { categories: ["toplevel", "devtools.timeline", "blink.user_timing"] });
  await act();
  /** @type {TraceEvent[]} */
  const events = JSON.parse((await browser.stopTracing()).toString()).traceEvents;
  const threads = new Map(
    events.filter((e) => e.name === "thread_name").map((e) => [`${e.pid} ${e.tid}`, e.args.name ?? ""]),
  );
  const tasks = events.filter((e) => /RunTask$/.test(e.name) && e.tdur !== undefined);
  const of = (/** @type {RegExp} */ name) =>
    tasks
      .filter((e) => name.test(threads.get(`${e.pid} ${e.tid}`) ?? ""))
      .map((e) => ({ from: e.ts, time: (e.tdur ?? 0) / 1000 }));
  return { events, main: of(/^CrRendererMain$/), worker: of(/DedicatedWorker/) };
}

test("a first plan within 300 ms of loading on a CPU slowed four times", async (t) => {
  /** @param {number} rate */
  const load = async (rate) => {
    const { page, close } = await open({ answered: false, fragment: "icon.svg" });
    const session = await page.context().newCDPSession(page);
    await session.send("Emulation.setCPUThrottlingRate", { rate });
    const { events, main, worker } = await traced(page, async () => {
      await page.goto(page.url().replace("icon.svg", ""), { waitUntil: "commit" });
      await settled(page);
    });
    await close();
    const at = (/** @type {string} */ name) => events.findLast((e) => e.name === name)?.ts ?? Number.NaN;
    const [loaded, shown] = [at("domContentLoadedEventEnd"), at("first plan")];
    const between = (/** @type {{ from: number, time: number }[]} */ tasks) =>
      tasks
        .filter((task) => task.from > loaded && task.from < shown)
        .reduce((sum, task) => sum + task.time, 0);
    return { wall: (shown - loaded) / 1000, page: between(main), worker: between(worker) };
  };
  await within(t, 300, async () => {
    const { wall } = await load(4);
    // Slowed, a thread's time counts its waiting; unslowed and times four it does not.
    const { page, worker } = await load(1);
    return { wall, processor: 4 * (page + worker) };
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
    const { main } = await traced(page, async () => {
      for (const [path, text] of /** @type {const} */ ([
        ["seq_len", "16384"],
        ["global_batch", "1024"],
      ])) {
        await page.locator(`[data-path='${path}']`).click();
        await page.keyboard.press("Control+A");
        await page.keyboard.type(text, { delay: 40 });
      }
      await settled(page);
      await page.waitForTimeout(1000);
    });
    const long = await page.evaluate(
      () => /** @type {{ long: number[] }} */ (/** @type {unknown} */ (window)).long,
    );
    await close();
    return { wall: Math.max(0, ...long), processor: Math.max(0, ...main.map((task) => task.time)) };
  });
});
