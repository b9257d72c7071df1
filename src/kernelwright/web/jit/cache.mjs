// What tuning found, kept in IndexedDB by device, operator and size. A change of the generator forgets it.

const VERSION = 1, STORE = "configurations";
const promised = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
const nameOf = (device, key) => `${device.engine}|${device.fused[0]}|${key}`;

export class Cache {
  /** Open the database, or return null where the browser has none. */
  static async open() {
    if (!globalThis.indexedDB) return null;
    const request = indexedDB.open("kernelwright", VERSION);
    request.onupgradeneeded = () => {
      for (const name of request.result.objectStoreNames) request.result.deleteObjectStore(name);
      request.result.createObjectStore(STORE);
    };
    return new Cache(await promised(request));
  }

  constructor(database) {
    this.database = database;
  }

  get(device, key) {
    return promised(this.database.transaction(STORE).objectStore(STORE).get(nameOf(device, key)));
  }

  put(device, key, found) {
    return promised(this.database.transaction(STORE, "readwrite").objectStore(STORE).put(found, nameOf(device, key)));
  }
}
