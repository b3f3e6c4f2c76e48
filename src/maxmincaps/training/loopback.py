"""Several processes of one machine that find each other through a file and talk over the loopback interface only."""

import os
import socket
from pathlib import Path

from lightning_fabric.strategies import DDPStrategy
from torch import distributed


class LoopbackDDP(DDPStrategy):
    """Fabric's DDP for spawned processes of one machine, without a listener that other machines can reach.

    torch's default store listens on all network interfaces. A file in a private directory replaces it.
    """

    store: Path
    """The file that the processes find each other by. It must not exist before they start."""

    def setup_environment(self) -> None:
        """Initialise the process group, which Fabric then uses as it is."""
        loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
        for backend in ("GLOO", "NCCL"):
            os.environ.setdefault(f"{backend}_SOCKET_IFNAME", loopback)
        device = self.root_device
        distributed.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            store=distributed.FileStore(str(self.store), self.num_processes),
            rank=self.local_rank,
            world_size=self.num_processes,
            device_id=None if device.type == "cpu" else device,
        )
        super().setup_environment()
