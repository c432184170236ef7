// Chromium as the tests use it.

const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
  // A name that is no loopback address for the browser, so its pages have no clipboard and no locks: as in a LAN without TLS.
  "--host-resolver-rules=MAP console.test 127.0.0.1"];

// On a loaded machine a launch sometimes ends with SIGSEGV: it is tried again, twice. Nothing else is.
export async function open(chromium) {
  for (let left = 2; ; left--) {
    try {
      return await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
    } catch (error) {
      if (!left || !error.message.includes("SIGSEGV")) throw error;
    }
  }
}
