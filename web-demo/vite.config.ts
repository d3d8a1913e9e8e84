import { readFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";

const SCHEMAS = new URL(process.env.SHARDWISE_SCHEMA ?? "../schema/", new URL("./", import.meta.url));

/** Nothing but what this page brings along: no third-party host, no inline script or style. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self' 'wasm-unsafe-eval'",
  "worker-src 'self'",
  "connect-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "manifest-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

type Node = { [key: string]: unknown };

/** Words of a schema that a form has no use for. */
const UNUSED = new Set([
  "$schema",
  "title",
  "format",
  "additionalProperties",
  "required",
  "minLength",
  "maxLength",
]);

function trimmed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(trimmed);
  if (typeof value !== "object" || value === null) return value;
  const node = value as Node;
  const own = Object.entries(node).filter(
    // Where a default is an object its fields say theirs.
    ([key, inner]) =>
      !UNUSED.has(key) &&
      !(key === "default" && typeof inner === "object" && !Array.isArray(inner) && inner !== null),
  );
  return Object.fromEntries(
    own.map(([key, inner]) => [
      key,
      key === "properties" || key === "$defs"
        ? Object.fromEntries(Object.entries(inner as Node).map(([name, n]) => [name, trimmed(n)]))
        : trimmed(inner),
    ]),
  );
}

/** Definitions that a node reaches. */
function reached(node: unknown, definitions: Node, seen: Set<string>): Set<string> {
  if (Array.isArray(node)) for (const inner of node) reached(inner, definitions, seen);
  else if (typeof node === "object" && node !== null) {
    for (const [key, inner] of Object.entries(node)) {
      if (key === "$ref") {
        const name = String(inner).slice(String(inner).lastIndexOf("/") + 1);
        if (!seen.has(name)) {
          seen.add(name);
          reached(definitions[name], definitions, seen);
        }
      } else reached(inner, definitions, seen);
    }
  }
  return seen;
}

/** The schemas of the requests as one, with only what the form shows. */
function requestSchema(): Plugin {
  const name = "virtual:request-schema";
  const read = (file: string): Node => JSON.parse(readFileSync(new URL(file, SCHEMAS), "utf8"));
  return {
    name: "request-schema",
    resolveId: (id) => (id === name ? `\0${name}` : undefined),
    load(id) {
      if (id !== `\0${name}`) return undefined;
      const [plan, estimate] = [read("plan.request.json"), read("estimate.request.json")];
      const definitions = { ...(plan.$defs as Node), ...(estimate.$defs as Node) };
      // Rows of one's own are files, not fields of a form: their names remain.
      for (const row of ["Accelerator", "Link", "CatalogRows"]) delete definitions[row];
      const properties: Node = { ...(estimate.properties as Node), ...(plan.properties as Node) };
      delete properties.catalog;
      delete properties.schema_version;
      const used = reached(properties, definitions, new Set());
      const kept = Object.fromEntries(Object.entries(definitions).filter(([key]) => used.has(key)));
      return `export default ${JSON.stringify(trimmed({ properties, $defs: kept }))}`;
    },
  };
}

/** The policy is for what is shipped; the development server needs its own inline code. */
function contentSecurityPolicy(): Plugin {
  return {
    name: "content-security-policy",
    apply: "build",
    transformIndexHtml: () => [
      {
        tag: "meta",
        attrs: { "http-equiv": "Content-Security-Policy", content: POLICY },
        injectTo: "head-prepend",
      },
    ],
  };
}

/** The first module is asked for with the page itself, not when the script has come to it. */
function preloadModule(): Plugin {
  return {
    name: "preload-module",
    apply: "build",
    transformIndexHtml: {
      order: "post",
      handler: (_, { bundle }) =>
        Object.keys(bundle ?? {})
          .filter((file) => /first[^/]*\.wasm$/.test(file))
          .map((file) => ({
            tag: "link",
            attrs: { rel: "preload", as: "fetch", crossorigin: true, href: `./${file}` },
            injectTo: "head" as const,
          })),
    },
  };
}

/** The list of files that a page kept offline needs. */
function fileList(): Plugin {
  return {
    name: "file-list",
    apply: "build",
    generateBundle(_, bundle) {
      const files = Object.keys(bundle).filter((file) => !file.endsWith(".html"));
      this.emitFile({
        type: "asset",
        fileName: "files.json",
        source: JSON.stringify(files.map((file) => `./${file}`)),
      });
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [requestSchema(), contentSecurityPolicy(), preloadModule(), fileList()],
  worker: { format: "es" },
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  optimizeDeps: { exclude: ["shardwise"] },
});
