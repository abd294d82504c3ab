"""The package as asyncio has it. The half that blocks is made of this one."""
