import asyncio
import os

LOOP = asyncio.new_event_loop()


async def later():
    await asyncio.sleep(0.01)
    return "rank %s" % os.environ.get("RANK")


TASK = LOOP.create_task(later())
