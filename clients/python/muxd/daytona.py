"""Daytona's names: `from muxd.daytona import Daytona`."""
from ._async.daytona import AsyncDaytona, AsyncDaytonaSandbox
from ._sync.daytona import Daytona, DaytonaSandbox

__all__ = ["AsyncDaytona", "AsyncDaytonaSandbox", "Daytona", "DaytonaSandbox"]
