import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

/** @param {RegExp} name */
const size = (name) =>
  readdirSync("dist/assets")
    .filter((file) => name.test(file))
    .reduce((sum, file) => sum + gzipSync(readFileSync(`dist/assets/${file}`), { level: 9 }).length, 0);

test("script under 60 kB, zipped", () => {
  console.log(`script ${size(/\.js$/)} B, style ${size(/\.css$/)} B, zipped`);
  assert.ok(size(/\.js$/) < 60_000);
});

test("what the first plan needs of the core under 150 kB, zipped", () => {
  const first = size(/first.*\.wasm$/);
  console.log(`first module ${first} B, whole module ${size(/\.wasm$/) - first} B, zipped`);
  assert.ok(first > 0 && first < 150_000);
});
