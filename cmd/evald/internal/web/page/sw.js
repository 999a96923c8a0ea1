// The service worker of a page without a server: it answers from its cache, so that the page works
// without a network. evald page writes settings in front: version, the hash of all files; files,
// which are stored at once; and lazy, large files that are stored when the page loads them and whose
// names are hashes.
const prefix = "evald " + registration.scope + " ";
const lazily = lazy.map((name) => new URL(name, registration.scope).href);

addEventListener("install", (e) => {
  const fresh = files.map((name) => new Request(new URL(name, registration.scope), { cache: "no-cache" }));
  e.waitUntil(store(fresh).then(() => skipWaiting()));
});

// store fails if the page is of another version, as while its host is being updated: the browser tries
// again later, and the page that is there stays.
async function store(fresh) {
  const cache = await caches.open(prefix + version);
  await cache.addAll(fresh);
  const page = await (await cache.match(new URL("index.html", registration.scope))).text();
  if (!page.includes(version)) {
    throw new Error("the page is not of version " + version);
  }
}

// A page asks for the version of the worker that answers it.
addEventListener("message", (e) => e.ports[0].postMessage(version));

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
