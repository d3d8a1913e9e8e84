/**
 * The core's two modules. The first holds what ordinary first plans run and traps at anything else; the
 * whole one follows once a plan is on the screen and answers everything.
 */

import whole from "../../wasm/pkg/shardwise_bg.wasm?url";
import first from "../../wasm/pkg/shardwise_first_bg.wasm?url";

/** Gives a module, fetched and compiled when first asked for; what failed is tried again when next asked. */
export type Core = () => Promise<WebAssembly.Module>;

export const FIRST = core(first);
export const WHOLE = core(whole);

function core(url: string): Core {
  let loading: Promise<WebAssembly.Module> | undefined;
  const load = async () => {
    const file = await fetch(url);
    if (!file.ok) throw new Error(`${file.status} ${file.statusText} for ${file.url}`);
    return WebAssembly.compile(await file.arrayBuffer());
  };
  return () => {
    loading ??= load().catch((e) => {
      loading = undefined;
      throw e;
    });
    return loading;
  };
}
