import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

test("script under 60 kB, zipped", () => {
  const size = (/** @type {string} */ ending) =>
    readdirSync("dist/assets")
      .filter((file) => file.endsWith(ending))
      .reduce((sum, file) => sum + gzipSync(readFileSync(`dist/assets/${file}`), { level: 9 }).length, 0);
  // The module's own limit is kept where it is built.
  console.log(`script ${size(".js")} B, style ${size(".css")} B, module ${size(".wasm")} B, zipped`);
  assert.ok(size(".js") < 60_000);
});
