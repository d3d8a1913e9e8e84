// A real Chromium on the built page, served as it would be.
import { existsSync } from "node:fs";
import { after, before } from "node:test";
import { chromium } from "playwright-core";
import { preview } from "vite";

const CANDIDATES = [
  process.env.CHROMIUM,
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
];

/** @type {import("playwright-core").Browser} */
export let browser;
/** @type {import("vite").PreviewServer} */
let server;
export let address = "";

/** Starts the browser and the server for the tests of a file. */
export function pageUnderTest() {
  before(async () => {
    const executablePath = CANDIDATES.find((path) => path && existsSync(path));
    if (!executablePath) throw new Error("No Chromium: install Debian's package chromium, or set CHROMIUM.");
    server = await preview({ preview: { port: 0, host: "127.0.0.1" }, logLevel: "error" });
    address = /** @type {string} */ (server.resolvedUrls?.local[0]);
    browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  });
  after(async () => {
    await browser?.close();
    await server?.close();
  });
}

/**
 * Opens the page and waits for its first answer.
 * @param {{ fragment?: string, width?: number, height?: number, dark?: boolean, answered?: boolean,
 *   prepare?: (page: import("playwright-core").Page) => Promise<unknown> }} [options]
 */
export async function open({
  fragment = "",
  width = 1280,
  height = 900,
  dark = false,
  answered = true,
  prepare = async () => {},
} = {}) {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: dark ? "dark" : "light",
    reducedMotion: "reduce",
    permissions: ["clipboard-read", "clipboard-write"],
  });
  // Patient: other work may share the machine.
  context.setDefaultTimeout(90_000);
  const page = await context.newPage();
  /** What should never happen: errors, refused content, requests to other hosts. */
  /** @type {string[]} */
  const faults = [];
  page.on("pageerror", (e) => faults.push(String(e)));
  page.on("console", (m) => m.type() === "error" && faults.push(m.text()));
  page.on("request", (r) => {
    if (!r.url().startsWith(address) && !r.url().startsWith("data:")) faults.push(`request to ${r.url()}`);
  });
  await prepare(page);
  await page.goto(address + fragment);
  if (answered) await settled(page);
  return { page, faults, close: () => context.close() };
}

/**
 * Waits until the newest question is answered.
 * @param {import("playwright-core").Page} page
 */
export async function settled(page) {
  await page.waitForSelector("#answer[aria-busy='false']", { state: "attached" });
}

/**
 * Waits until what takes longer than a plan is there too.
 * @param {import("playwright-core").Page} page
 */
export async function deepened(page) {
  await settled(page);
  await page.waitForSelector(".part-compare[aria-busy='false']", { state: "attached" });
}

/**
 * @param {import("playwright-core").Page} page
 * @returns {Promise<string>}
 */
export async function verdict(page) {
  return (await page.locator(".verdict").innerText()).replaceAll(/\s+/g, " ");
}

/**
 * The fields of the set-up as the address holds them.
 * @param {import("playwright-core").Page} page
 */
export async function fields(page) {
  await page.waitForTimeout(250);
  return new URLSearchParams(new URL(page.url()).hash.slice(1));
}

/**
 * Unfolds everything.
 * @param {import("playwright-core").Page} page
 */
export async function unfold(page) {
  await page.evaluate(() => {
    for (const it of document.querySelectorAll("details")) it.open = true;
  });
  await page.waitForFunction(() =>
    [...document.querySelectorAll("details")].every((it) => it.querySelector("[data-path], table, li")),
  );
}

/**
 * Follows a link to another set-up on the open page.
 * @param {import("playwright-core").Page} page
 * @param {string} fragment
 */
export async function go(page, fragment) {
  await page.evaluate(
    (hash) =>
      new Promise((done) => {
        if (location.hash === hash) return done(undefined);
        addEventListener("hashchange", done, { once: true });
        location.hash = hash;
      }),
    fragment,
  );
  await settled(page);
}
