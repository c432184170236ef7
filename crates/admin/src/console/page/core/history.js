// Chats stored in this browser, separately for each instance of toolwire.

let database;

function opened(instance) {
  database ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(`toolwire-${instance ?? "local"}`, 1);
    request.onupgradeneeded = () => request.result.createObjectStore("chats", { keyPath: "id" });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  return database;
}

async function run(instance, mode, body) {
  const store = (await opened(instance)).transaction("chats", mode).objectStore("chats");
  const request = body(store);
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

export const all = async (instance) => (await run(instance, "readonly", (store) => store.getAll())).sort((one, other) => other.t - one.t);
export const put = (instance, chat) => run(instance, "readwrite", (store) => store.put(chat));
export const forget = (instance, id) => run(instance, "readwrite", (store) => store.delete(id));
