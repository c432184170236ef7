// An exchange as a file for `toolwire replay`.

import { adminUrl, part, request } from "./api.js";
import { save } from "./copy.js";

// Saves it as an archive. Throws an error that says why there is none.
export async function saveFixture(id) {
  const response = await request("GET", adminUrl(`exchanges/${part(id)}/fixture`));
  save(`${id}.tar`, await response.arrayBuffer(), "application/x-tar");
}
