import restate

keys = restate.Service("Keys")


@keys.handler()
async def show(context: restate.Context) -> str:
    return context.request().headers.get("x-idempotency-key", "none")


app = restate.app([keys])
