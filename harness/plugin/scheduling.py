"""How xdist spreads the tests when there are devices: all cases of a device on one worker, everything else freely."""

from __future__ import annotations

from xdist.scheduler.loadscope import LoadScopeScheduling  # type: ignore[import-untyped]
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

from harness.plugin.devices import device_index


class DeviceScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """xdist's scheduling by scope, with a device as the scope of its cases and every other test as its own.

    Two things differ from xdist 3.8: a test that killed its worker is not run again (the second run would hide the
    first), and a worker that gets the last tests is told so (it waits for another one before it runs what it has).
    """

    def _split_scope(self, nodeid: str) -> str:
        index = device_index(nodeid)
        return nodeid if index is None else f"device {index}"

    def _reschedule(self, node: WorkerController) -> None:
        super()._reschedule(node)
        if not self.workqueue and not node.shutting_down:
            node.shutdown()

    def remove_node(self, node: WorkerController) -> str | None:
        workload = self.assigned_work.pop(node)
        left = {
            scope: [name for name, done in tests.items() if not done] for scope, tests in workload.items()
        }
        waiting = [(scope, names) for scope, names in left.items() if names]
        if not waiting:
            return None
        killed_by: str = waiting[0][1].pop(0)
        self.workqueue.update({scope: dict.fromkeys(names, False) for scope, names in waiting if names})
        for other in self.assigned_work:
            self._reschedule(other)
        return killed_by
