/** Works without a network once the person says so; until then nothing is stored. */
import { h, id } from "./dom";

const CACHE = "shardwise";

export function offlineSwitch(): HTMLElement | null {
  if (!("serviceWorker" in navigator) || !window.isSecureContext) return null;
  const box = h("input", { type: "checkbox", id: id("offline") });
  const said = h("span", { role: "status" });
  void navigator.serviceWorker.getRegistration().then((known) => {
    box.checked = known !== undefined;
  });
  box.addEventListener("input", async () => {
    said.textContent = "";
    try {
      if (box.checked) {
        await navigator.serviceWorker.register("./offline.js");
        await navigator.serviceWorker.ready;
        said.textContent = " Kept: this page now opens without a network.";
      } else {
        await (await navigator.serviceWorker.getRegistration())?.unregister();
        await caches.delete(CACHE);
        said.textContent = " Nothing is kept any more.";
      }
    } catch (e) {
      box.checked = false;
      said.textContent = ` This browser did not keep the page: ${String(e)}`;
    }
  });
  return h(
    "p",
    { class: "offline" },
    box,
    " ",
    h("label", { for: box.id }, "Keep this page on this device, to use it without a network"),
    said,
  );
}
