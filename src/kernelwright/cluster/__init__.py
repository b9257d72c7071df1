"""Job → answer, on a Ray cluster: each job is answered once, whatever dies on the way.

    this process ── pipe ── Ray driver ══ Ray ══ actor on a node ── pipe ── evaluator, which has torch and the device

Covers: an evaluator, a worker or a node that dies, a head that restarts, a driver that crashes, an object store that is
full, a slow node, an answer that arrives twice.
Does not cover: nodes that lie; a network file system between nodes; who may use the cluster.
"""

from ._address import check_address
from ._client import Cluster, Event
from ._job import Job, JobFailed, Place, Workplace

__all__ = ["Cluster", "Event", "Job", "JobFailed", "Place", "Workplace", "check_address"]
