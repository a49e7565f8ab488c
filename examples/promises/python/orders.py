import json

import restate

DAY = 24 * 60 * 60


async def promise(ctx: restate.Context, key: str, ttl_s: int):
    """From now on `key`, which is `{tenant}:{project}:{what is waited for}`, leads here, for as long as `ttl_s` says."""
    awakeable, outcome = ctx.awakeable()
    registration = json.dumps({"awakeable": awakeable, "ttl_s": ttl_s}).encode()
    await ctx.generic_call("Promises", "await", registration, key=key)
    return outcome


async def charge(order: str) -> str:
    """The payment provider, as far as this example needs it: a real one is called here, and answers with the id of the charge."""
    return f"ch_{order}"


def scope(ctx: restate.Context) -> str:
    """Whose charge it is: the gateway sets these headers from the caller's token."""
    tenant, project = (ctx.request().headers.get(name) for name in ("x-tenant-id", "x-project-id"))
    if not tenant or not project:
        raise restate.TerminalError("no tenant or no project", status_code=400)
    return f"{tenant}:{project}"


orders = restate.Service("Orders")


@orders.handler()
async def pay(ctx: restate.Context, order: str) -> dict:
    """Waits for the one event that there will be."""
    charge_id = await ctx.run_typed("charge the card", charge, order=order)
    event = await (await promise(ctx, f"{scope(ctx)}:stripe:{charge_id}", DAY))
    return {"order": order, "charge": charge_id, "event": event and event.get("type")}


@orders.handler()
async def settle(ctx: restate.Context, order: str) -> dict:
    """Waits for one of two events, where the key holds the event's type."""
    charge_id = await ctx.run_typed("charge the card", charge, order=order)
    succeeded = await promise(ctx, f"{scope(ctx)}:stripe:charge.succeeded:{charge_id}", DAY)
    failed = await promise(ctx, f"{scope(ctx)}:stripe:charge.failed:{charge_id}", DAY)
    which, _ = await restate.select(succeeded=succeeded, failed=failed)
    return {"order": order, "paid": which == "succeeded"}


app = restate.app([orders])
