// Entry point of the console.

import { resume, signIn } from "./core/api.js";
import { go, href, parse } from "./core/route.js";
import { begin, showLogin } from "./shell.js";
import { finishLogin } from "./view/login.js";

begin();
finishLogin();
const { page, query } = parse(location.hash);
const code = page === "login" && query.get("code");
if (page === "login") go(href("live"), { replace: true });
try {
  if (code) await signIn({ code });
  else await resume();
} catch (error) {
  await resume().catch(() => {});
  showLogin(error);
}
