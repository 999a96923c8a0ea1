// The service worker of a page without a server: it answers from its cache, so that the page works
// without a network. evald page writes settings in front: version, the hash of all files; files,
// which are stored at once; and lazy, large files that are stored when the page loads them and whose
// names are hashes.
const prefix = "evald " + registration.scope + " ";
const lazily = lazy.map((name) => new URL(name, registration.scope).href);

addEventListener("install", (e) => {
  const fresh = files.map((name) => new Request(new URL(name, registration.scope), { cache: "no-cache" }));
  e.waitUntil(caches.open(prefix + version).then((cache) => cache.addAll(fresh)).then(() => skipWaiting()));
});

addEventListener("activate", (e) => e.waitUntil(take()));

async function take() {
  const cache = await caches.open(prefix + version);
  for (const name of await caches.keys()) {
    if (name.startsWith(prefix) && name !== prefix + version) {
      const old = await caches.open(name);
      for (const request of await old.keys()) {
        if (lazily.includes(request.url)) {
          await cache.put(request, await old.match(request));
        }
      }
      await caches.delete(name);
    }
  }
  await clients.claim();
}

addEventListener("fetch", (e) => {
  if (e.request.method === "GET" && e.request.url.startsWith(registration.scope)) {
    e.respondWith(answer(e.request));
  }
});

async function answer(request) {
  const cache = await caches.open(prefix + version);
  const known = await cache.match(request, { ignoreSearch: true });
  if (known) {
    return known;
  }
  const response = await fetch(request);
  if (response.ok && lazily.includes(response.url)) {
    await cache.put(request, response.clone());
  }
  return response;
}
