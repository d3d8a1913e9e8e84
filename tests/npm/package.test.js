// The npm package as a stranger uses it: packed, typed, bundled, loaded.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { load } from "shardwise";
import { build } from "vite";
import { open } from "../conformance/browser.js";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const out = mkdtempSync(join(tmpdir(), "shardwise-npm-"));
const bundle = join(out, "bundle");
after(() => rmSync(out, { recursive: true }));

test("npm packs what the package needs and no more", () => {
  const text = execFileSync("npm", ["pack", "--dry-run", "--json"], { cwd: here("../../wasm"), encoding: "utf8" });
  const [{ files }] = JSON.parse(text);
  assert.deepEqual(files.map(({ path }) => path).sort(), [
    "README.md",
    "js/browser.js",
    "js/face.js",
    "js/index.d.ts",
    "js/node.js",
    "package.json",
    "pkg/shardwise.d.ts",
    "pkg/shardwise.js",
    "pkg/shardwise_bg.wasm",
    "pkg/shardwise_bg.wasm.d.ts",
    "pkg/shardwise_first_bg.wasm",
    "pkg/types.d.ts",
  ]);
});

test("the types check", () => {
  execFileSync(here("../node_modules/.bin/tsc"), ["--project", here("app")], { stdio: "inherit" });
});

test("installed from what npm packs, the ten lines of the README run in Node", async () => {
  const into = join(out, "node");
  mkdirSync(into);
  const npm = (...words) => execFileSync("npm", words, { cwd: into, encoding: "utf8" });
  const [{ filename }] = JSON.parse(npm("pack", here("../../wasm"), "--json"));
  npm("install", "--offline", "--no-audit", "--no-fund", "--no-package-lock", `./${filename}`);
  const readme = readFileSync(join(into, "node_modules/shardwise/README.md"), "utf8");
  const [, example] = /```js\n(.*?)```/s.exec(readme);
  assert.ok(example.trimEnd().split("\n").length <= 10);
  writeFileSync(join(into, "example.mjs"), example);
  const printed = execFileSync(process.execPath, ["example.mjs"], { cwd: into, encoding: "utf8" });
  const { answer } = (await load()).ask("plan", {
    model: "llama-3.1-8b",
    cluster: "8xH100-SXM-80GB",
    seq_len: 8192,
    global_batch: 64,
  });
  assert.equal(printed, `${answer.best.fit.reason}\n`);
});

test("a bundle gives in the browser what Node gives", async () => {
  await build({ root: here("app"), logLevel: "warn", build: { outDir: bundle, emptyOutDir: true, target: "es2022" } });
  const { tab, faults, close } = await open(bundle, "index.html");
  try {
    const shown = tab.locator("output:not(:empty)");
    await shown.waitFor({ timeout: 20_000 });
    const { answer } = (await load()).ask("plan", {
      model: "llama-3.1-8b",
      cluster: "8xH100-SXM-80GB",
      seq_len: 8192,
      global_batch: 64,
    });
    assert.equal(await shown.textContent(), answer.best.fit.reason);
    assert.deepEqual(faults, []);
  } finally {
    await close();
  }
});
