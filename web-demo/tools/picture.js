// Takes the picture of the page for the README: `npm run build && npm run picture`.
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";
import { preview } from "vite";

const executablePath =
  [process.env.CHROMIUM, "/usr/bin/chromium"].find((path) => path && existsSync(path)) ?? "";
const server = await preview({ preview: { port: 0, host: "127.0.0.1" }, logLevel: "error" });
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1280, height: 860 }, colorScheme: "light" });
await page.goto(server.resolvedUrls?.local[0] ?? "");
await page.waitForSelector("#answer[aria-busy='false']");
await page.screenshot({ path: "../docs/images/page.png" });
await browser.close();
await server.close();
