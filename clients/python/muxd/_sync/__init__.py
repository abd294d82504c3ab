"""The package as asyncio has it. The half that blocks is made of this one.

Made by clients/generate.py; a change belongs there, or into _async/.
"""
