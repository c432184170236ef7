// Chats stored in this browser, separately for each instance of toolwire.

// How long to wait for the browser's database, in milliseconds. It may be blocked by another page, or never answer.
const LIMIT = 2000;

let database;

function opened(instance) {
  database ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(`toolwire-${instance ?? "local"}`, 1);
    request.onupgradeneeded = () => request.result.createObjectStore("chats", { keyPath: "id" });
    request.onsuccess = () => {
      request.result.onclose = () => (database = undefined);
      resolve(request.result);
    };
    request.onerror = () => {
      database = undefined;
      reject(request.error);
    };
  });
  return database;
}

async function stored(instance, mode, body) {
  const transaction = (await opened(instance)).transaction("chats", mode);
  const request = body(transaction.objectStore("chats"));
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve(request.result);
    transaction.onabort = () => reject(transaction.error);
  });
}

function run(...asked) {
  const late = new Promise((_, reject) => setTimeout(reject, LIMIT, new Error("The browser's database does not answer")));
  return Promise.race([stored(...asked), late]);
}

export const all = async (instance) => (await run(instance, "readonly", (store) => store.getAll())).sort((one, other) => other.t - one.t);
export const put = (instance, chat) => run(instance, "readwrite", (store) => store.put(chat));
export const forget = (instance, id) => run(instance, "readwrite", (store) => store.delete(id));
