// Debian's Chromium, driven without a browser of its own, on files served from memory of this process.
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join, normalize } from "node:path";
import { chromium } from "playwright-core";

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".wasm": "application/wasm" };

/** Serves `folder` on the loopback address and opens `page` of it; `close` ends both. */
export async function open(folder, page) {
  const server = createServer(async (request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, "http://localhost").pathname));
    try {
      const body = await readFile(join(folder, path));
      response.setHeader("content-type", TYPES[extname(path)] ?? "application/octet-stream");
      response.end(body);
    } catch {
      response.statusCode = 404;
      response.end();
    }
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
  const tab = await browser.newPage();
  const faults = [];
  tab.on("pageerror", (fault) => faults.push(String(fault)));
  await tab.goto(`http://127.0.0.1:${server.address().port}/${page}`);
  return {
    tab,
    faults,
    close: async () => {
      await browser.close();
      server.close();
    },
  };
}
