// Chromium as the tests use it.

const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

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
