"""What toolwire must keep: stored responses that clients were given, and what it has counted of their use."""

import asyncio
import json
import random

from configuration import ADMIN, KEY

# Maximum number of stored responses that are read again, besides those around a restart of the store.
SAMPLED = 1000
# Seconds before a restart of the store and after it from which every response is read again.
AROUND = 10
# Seconds until counts that waited for the store must be there.
SETTLES = 30


async def lost_responses(stage, stored, outages, dice):
    """Reads responses again after the run. Returns how many were read, and the ids of those that are not there."""
    around = [id for ended, id in stored if any(one.began - AROUND < ended < one.ended + AROUND for one in outages)]
    ids = set(around) | {id for _, id in dice.sample(stored, min(SAMPLED, len(stored)))}
    lost = [id for id in ids if (await stage.asked(f"/v1/responses/{id}", KEY))[0] != 200]
    return len(ids), lost


async def counted(stage):
    """Returns the requests and tokens of each key, as the ledger has them and as the metrics of this process have them.
    Lists of models are requests in the metrics alone (model `other`)."""
    _, body = await stage.asked("/admin/keys", ADMIN)
    used = {one["name"]: one["used"] for one in json.loads(body)["keys"]}
    _, body = await stage.asked("/metrics")
    own = {name: {"requests": 0, "input_tokens": 0, "output_tokens": 0} for name in used}
    for line in body.decode().splitlines():
        name, _, rest = line.partition("{")
        labels = dict(one.split("=") for one in rest.partition("}")[0].split(",") if "=" in one)
        key, value = labels.get("key", "").strip('"'), line.rpartition(" ")[2]
        is_asked = labels.get("model") != '"other"'
        if name == "toolwire_key_requests_total" and is_asked and labels["status"] != '"429"':
            own[key]["requests"] += int(value)
        elif name == "toolwire_key_tokens_total":
            own[key][labels["kind"].strip('"') + "_tokens"] += int(value)
    return used, own


async def counts(stage):
    """Returns what `counted` does, once both agree, or after `SETTLES` seconds."""
    for _ in range(SETTLES):
        used, own = await counted(stage)
        if used == own:
            break
        await asyncio.sleep(1)
    return used, own


async def checked(stage, stored, outages, seed):
    """Returns the results, and the rules that are broken."""
    rules = []
    used, own = await counts(stage)
    if used != own:
        rules.append(f"the ledger has counted {used}, the metrics {own}")
    read, lost = 0, []
    if stage.has_store_process:
        read, lost = await lost_responses(stage, stored, outages, random.Random(seed))
    if lost:
        rules.append(f"{len(lost)} of {read} stored responses are lost: {lost[:5]}")
    return {"used": used, "counted": own, "read_again": read, "lost": len(lost)}, rules
