// Links at random: whatever stands behind the #, the page has a state or a message.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { build } from "vite";

/** The page's own reader and writer of fragments. */
const { fromFragment, toFragment, START } = await source("../src/state.ts");

/** @param {string} file */
async function source(file) {
  const entry = fileURLToPath(new URL(file, import.meta.url));
  const built = await build({
    configFile: false,
    logLevel: "silent",
    build: { write: false, minify: false, lib: { entry, formats: ["es"], fileName: "module" } },
  });
  const [{ output }] = /** @type {any} */ (Array.isArray(built) ? built : [built]);
  return import(`data:text/javascript,${encodeURIComponent(output[0].code)}`);
}

const RUNS = { numRuns: 20_000, seed: 7 };
const word = fc.stringMatching(/^[a-zA-Z][a-zA-Z0-9_]{0,12}$/);
const path = fc.array(word, { minLength: 1, maxLength: 8 }).map((words) => words.join("."));
// What belongs to the link itself is no field.
const own = path.filter((it) => it !== "v" && it !== "beside");
const text = fc.string({ unit: "binary", maxLength: 60 });
const state = fc.array(fc.tuple(own, text), { maxLength: 20 }).map((fields) => new Map(fields));
const link = fc.tuple(state, fc.array(state, { maxLength: 2 }));

/** @param {string} fragment */
function isAnswered(fragment) {
  const { state, beside, problem } = fromFragment(fragment);
  for (const fields of [state, ...beside]) {
    assert.ok(fields instanceof Map && fields.size <= 300);
    for (const [path, value] of fields) assert.ok(/^[\w.]+$/.test(path) && typeof value === "string");
  }
  if (problem !== undefined) {
    assert.match(problem, /^This link .{10,200}$/s);
    assert.equal(state, START);
  }
}

test("a link gives back what was put into it", () => {
  fc.assert(
    fc.property(link, ([state, beside]) => {
      const read = fromFragment(toFragment(state, beside));
      assert.equal(read.problem, undefined);
      assert.deepEqual([...read.state], [...state]);
      assert.deepEqual(
        read.beside.map((/** @type {Map<string, string>} */ it) => [...it]),
        beside.map((it) => [...it]),
      );
    }),
    RUNS,
  );
});

test("any text is answered", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 200 }), (text) => {
      for (const fragment of [text, `#${text}`, `#v=1&${text}`, `#v=1&model=gpt2&beside=${text}`])
        isAnswered(fragment);
    }),
    RUNS,
  );
});

test("a damaged link is answered", () => {
  const damage = fc.record({
    at: fc.nat(),
    cut: fc.nat(6),
    put: fc.string({ unit: "binary", maxLength: 6 }),
  });
  fc.assert(
    fc.property(link, fc.array(damage, { minLength: 1, maxLength: 4 }), ([state, beside], places) => {
      let fragment = toFragment(state, beside);
      for (const { at, cut, put } of places) {
        const from = at % (fragment.length + 1);
        fragment = fragment.slice(0, from) + put + fragment.slice(from + cut);
      }
      isAnswered(fragment);
    }),
    RUNS,
  );
});
