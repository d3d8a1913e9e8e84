// Registered only when the person asks for it. Keeps the page's own files, nothing else.
const CACHE = "shardwise";

self.addEventListener("install", (event) => {
  const keep = async () => {
    const files = await (await fetch("./files.json", { cache: "no-store" })).json();
    const cache = await caches.open(CACHE);
    await cache.addAll(["./", ...files]);
    await self.skipWaiting();
  };
  event.waitUntil(keep());
});

self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

// The network first, so that a new version shows at once; what is kept when there is none.
self.addEventListener("fetch", (event) => {
  if (event.request.method !== "GET") return;
  const answer = async () => {
    try {
      return await fetch(event.request);
    } catch (failure) {
      const kept = await caches.match(event.request, { ignoreSearch: true, ignoreVary: true });
      if (kept) return kept;
      throw failure;
    }
  };
  event.respondWith(answer());
});
