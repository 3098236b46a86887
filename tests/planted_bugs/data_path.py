"""Bugs of the data path: disk states, quorum, connections, resyncs, promotion and sizes of DRBD.

To plant with the contents of blocks, once the model keeps them:

- resync-skips-last-extent: the loop over dirty extents ends one too early.
- resync-reads-old-generation: the source sends blocks as they were when the resync began, so
  writes during it are lost on the target.
- dirty-extent-cleared-on-send: an extent counts as clean when it is sent, not when it is
  acknowledged; a break of the link in between loses it.
- acknowledged-before-silent-peer: a write is acknowledged although a connected peer is silent, as
  with protocol A.
- acknowledged-by-one-copy: a write is acknowledged by the local disk alone.
- write-during-freeze-dropped: writes that were frozen without quorum are dropped, and
  acknowledged, when quorum returns.
- split-brain-merges-blocks: after two sides have written, each block takes the later sequence
  number instead of one side's data.
- wiped-disk-keeps-blocks: a wiped disk forgets its generation and keeps its blocks, which show
  through until the first resync.
- resync-interrupted-from-start: an interrupted resync forgets which extents were dirty, and
  resumes with those that are dirty since.
- initialise-keeps-blocks: forced initialisation declares old blocks of another volume valid.
- activity-log-one-extent: after a crash only the last extent of the activity log is resynced.
- resync-to-wrong-offset: after a resize, extents are numbered by the old size.
"""

from __future__ import annotations

from typing import Any

from planted_bugs.planting import REMOVED, Patch, PlantedBug, edited, entry, replaced
from pytest_kscen.models.storage.drbd.connections import ConnectionEvent, ConnectionPhase
from pytest_kscen.models.storage.drbd.replicas import DiskEvent
from pytest_kscen.models.storage.drbd.states import DiskState

DRBD = "models.storage.drbd"
GUIDE = "DRBD 9 User's Guide"


def bug(name: str, wrong: str, source: str, cause: str, *patches: Patch) -> PlantedBug:
    return PlantedBug(name, "data path", wrong, source, cause, patches)


def _uncertain_disk_forgotten(stop: Any) -> Any:
    def stop_and_forget(self: Any) -> None:
        stop(self)
        self.behind = False
        if self.disk is DiskState.OUTDATED:
            self.disk = DiskState.CONSISTENT

    return stop_and_forget


def _interruption_is_completion(stop_resync: Any) -> Any:
    def stop_and_complete(self: Any, node: str) -> None:
        stop_resync(self, node)
        if node in self._replicas:
            replica = self._replicas[node]
            replica.missing, replica.behind = 0.0, False
            replica.apply_event(DiskEvent.SYNC_ENDED)

    return stop_and_complete


BUGS = (
    bug(
        "io-stays-suspended",
        "A Primary that was suspended without quorum stays suspended when quorum returns.",
        f"{GUIDE}, on-no-quorum suspend-io: I/O resumes with quorum; LINBIT/linstor-server#189",
        "the Primary has quorum and is still suspended",
        edited(
            f"{DRBD}.resource:StateResolver._count_votes",
            (
                "not (quorum and visible.up_to_date)",
                "(replica.suspended or not (quorum and visible.up_to_date))",
            ),
        ),
    ),
    bug(
        "overtaken-disk-up-to-date",
        "A Consistent disk becomes UpToDate although its peers have newer data.",
        "LINBIT/drbd#30: UpToDate with blocks out of sync",
        "the replica's disk is UpToDate although others wrote while it was away",
        entry(
            f"{DRBD}.replicas:DISK_TRANSITIONS",
            (DiskState.CONSISTENT, DiskEvent.OVERTAKEN),
            DiskState.UP_TO_DATE,
        ),
    ),
    bug(
        "cut-off-disk-not-outdated",
        "A replica that misses writes is marked Outdated only if it was Consistent, not UpToDate.",
        f"{GUIDE}, fencing and Outdated; LINBIT/linstor-server#106",
        "the disk of the replica that was cut off was never marked Outdated",
        edited(
            f"{DRBD}.resource:StateResolver._update_writes",
            (
                "if replica.disk is UP_TO_DATE:",
                "if replica.disk is CONSISTENT:",
            ),
        ),
    ),
    bug(
        "interrupted-resync-complete",
        "A resync that is broken off counts as finished, and its target becomes UpToDate.",
        "LINBIT/linstor-server#145: marked UpToDate without synchronisation; mayastor#277",
        "the resync to the replica was interrupted, and its disk became UpToDate",
        replaced(f"{DRBD}.resource:StateResolver._stop_resync", _interruption_is_completion),
    ),
    bug(
        "activity-log-ignored",
        "The role is reset before it is read, so a crashed Primary never resyncs its activity log.",
        f"{GUIDE}, activity log: recovery after a Primary's crash",
        "the crashed Primary's last writes were not resynced",
        edited(
            f"{DRBD}.resource:DrbdResource.lose_power",
            (
                "    self.mesh.lose_power(node)\n",
                "    self.mesh.lose_power(node)\n    replica.demote()\n",
            ),
        ),
    ),
    bug(
        "writes-without-quorum",
        "A Primary without quorum is not suspended, as long as it sees UpToDate data.",
        f"{GUIDE}, on-no-quorum suspend-io; docs/simulated-storage.md, quorum",
        "the Primary had no quorum and was not suspended",
        edited(
            f"{DRBD}.resource:StateResolver._count_votes",
            ("not (quorum and visible.up_to_date)", "not visible.up_to_date"),
        ),
    ),
    bug(
        "quorum-counts-configured-peers",
        "Votes of configured peers are counted, whether they are connected or not.",
        "LINBIT/drbd#52: wrong quorum on one node; DRBD 9 User's Guide, quorum",
        "the replica counted votes of peers that it was not connected to",
        edited(
            f"{DRBD}.resource:_visible_to",
            ("1 + len(visible_peers)", "1 + len(replica.config.peers)"),
        ),
    ),
    bug(
        "minimum-redundancy-ignored",
        "quorum-minimum-redundancy is configured and not looked at.",
        "deckhouse/sds-replicated-volume#124 and #441: quorum-minimum-redundancy",
        "the Primary had fewer UpToDate copies than the minimum redundancy and kept quorum",
        edited(
            f"{DRBD}.states:has_quorum",
            ("return enough_data and has_enough_votes", "return has_enough_votes"),
        ),
    ),
    bug(
        "sync-target-counts-as-copy",
        "A peer that is still being resynced counts as an UpToDate copy for the redundancy.",
        f"{GUIDE}, quorum-minimum-redundancy counts UpToDate disks; longhorn#9216",
        "an Inconsistent replica was counted as an UpToDate copy",
        edited(
            f"{DRBD}.resource:_visible_to",
            (
                "        if peer.disk is UP_TO_DATE:\n",
                "        if peer.disk in (UP_TO_DATE, DiskState.INCONSISTENT):\n",
            ),
        ),
    ),
    bug(
        "promotion-without-quorum",
        "A replica without quorum may become Primary.",
        "quantum/esos#169: promoted in a state that forbids it; DRBD 9 User's Guide, quorum",
        "the replica became Primary while it had no quorum",
        edited(f"{DRBD}.drbd:promotion_refusal", ("if not replica.quorum:", "if False:")),
    ),
    bug(
        "new-disk-up-to-date",
        "A new disk starts as Consistent, and is UpToDate without having copied anything.",
        "LINBIT/linstor-server#145: new resource is UpToDate without data synchronisation",
        "the new replica's disk became UpToDate without a resync",
        edited(
            f"{DRBD}.replicas:DrbdReplica.configure",
            ("DiskState.INCONSISTENT, float(config.size)", "DiskState.CONSISTENT, 0.0"),
        ),
    ),
    bug(
        "lost-link-stands-alone",
        "A connection that timed out becomes StandAlone, and nothing connects it again.",
        "piraeus-operator#436, linstor-server#213: StandAlone after an outage",
        "the link between two replicas is StandAlone since the network failed",
        entry(
            f"{DRBD}.connections:TRANSITIONS",
            (ConnectionPhase.SILENT, ConnectionEvent.PING_TIMEOUT),
            ConnectionPhase.STAND_ALONE,
        ),
    ),
    bug(
        "reopened-path-missed",
        "The event that a path is open again is ignored by a connection that waits for it.",
        "LINBIT/linstor-server#18: connection stays Connecting",
        "the link between two replicas stayed Connecting after the network was healed",
        entry(
            f"{DRBD}.connections:TRANSITIONS",
            (ConnectionPhase.WAITING, ConnectionEvent.PATH_OPENED),
            REMOVED,
        ),
    ),
    bug(
        "ping-timeout-in-wrong-unit",
        "The timeout of a silent link is ten times too long: seconds were taken for tenths.",
        f"{GUIDE}, ping-timeout is in tenths of a second; xcp-ng/sm#45",
        "the silent link was noticed after minutes",
        edited(
            f"{DRBD}.connections:PeerLink.handle",
            (
                "*parameters.silence_timeout",
                "*(10 * seconds for seconds in parameters.silence_timeout)",
            ),
        ),
    ),
    bug(
        "resync-from-outdated-peer",
        "A resync takes its data from an Outdated peer if that one has the lower node id.",
        f"{GUIDE}, resync source must be UpToDate; longhorn#9216: wrong replica counts as healthy",
        "the source of the replica's resync was Outdated",
        edited(
            f"{DRBD}.resource:StateResolver._start_resync",
            (
                "if peer.disk is UP_TO_DATE]",
                "if peer.disk in (UP_TO_DATE, DiskState.OUTDATED)]",
            ),
        ),
        edited(
            f"{DRBD}.resource:StateResolver._may_continue",
            ("source.disk is UP_TO_DATE", "source.disk is not DISKLESS"),
        ),
    ),
    bug(
        "paused-resync-stays-paused",
        "A resync that stood still while its link was silent does not go on.",
        "LINBIT/drbd#40, linstor-server#251: stuck in SyncTarget",
        "the resync to the replica stands still since its link was silent",
        edited(
            f"{DRBD}.kernel:Resync.set_rate",
            ("if rate == self._rate:", "if rate == self._rate or self._rate == 0:"),
        ),
    ),
    bug(
        "resync-waits-for-lost-source",
        "A resync keeps a source that is disconnected or no longer UpToDate instead of another.",
        "openebs/mayastor-control-plane#507: target unreachable during a rebuild",
        "the resync kept its source after the link to it was lost",
        edited(
            f"{DRBD}.resource:StateResolver._may_continue",
            (
                "if link is not resync.link or not (",
                "if link is not resync.link or not source or not (",
            ),
            ("link.silent or (link.connected", "True or (link.connected"),
        ),
    ),
    bug(
        "dirty-mark-kept-after-resync",
        "The mark that a disk misses writes stays after its resync, so a restart makes it Outdated.",
        "LINBIT/drbd#30: UpToDate disk with blocks out of sync; LINBIT/drbdtop#7",
        "the replica's disk became Outdated although it had been resynced",
        edited(
            f"{DRBD}.resource:StateResolver._start_resync",
            ("target.missing, target.behind = 0.0, False", "target.missing = 0.0"),
        ),
    ),
    bug(
        "size-of-largest-disk",
        "The device has the size of the largest disk, before all disks have grown.",
        "longhorn#4679: replica sizes differ after an expansion; LINBIT/linstor-server#40",
        "the device was larger than the replica's disk",
        edited(
            f"{DRBD}.resource:DrbdResource.update_state",
            ("self.size = min(", "self.size = max("),
        ),
    ),
    bug(
        "running-disk-not-grown",
        "A new size is applied only when the resource is brought up, not while it runs.",
        "openebs/mayastor#1989: failed replica resize is never repeated",
        "the replica's disk was not grown",
        edited(
            f"{DRBD}.replicas:DrbdReplica.configure",
            ("    self.size = config.size", "    self.size = self.size or config.size"),
        ),
    ),
    bug(
        "quorum-off-by-one",
        "One vote less than configured is enough for quorum.",
        "megatest.md: quorum is max(2, N/2+1) over all replicas",
        "the replica had quorum with one vote too few",
        edited(
            f"{DRBD}.states:has_enough_votes",
            ("visible.diskless >= config.quorum", "visible.diskless >= config.quorum - 1"),
        ),
    ),
    bug(
        "outdated-flag-lost-at-restart",
        "The mark that a disk is outdated is not stored: it is lost when the resource goes down.",
        f"{GUIDE}, Outdated is kept in the metadata; LINBIT/linstor-server#106",
        "the Outdated disk was UpToDate after a restart of its node",
        replaced(f"{DRBD}.replicas:DrbdReplica.stop", _uncertain_disk_forgotten),
    ),
    bug(
        "suspended-primary-kept",
        "A suspended Primary that meets newer data stays Primary.",
        f"{GUIDE}, on-suspended-primary-outdated force-secondary; LINBIT/drbd#52",
        "the suspended Primary kept its role although others had newer data",
        edited(
            f"{DRBD}.resource:StateResolver.resolve",
            ("and replica.suspended\n                and replica.behind", "and False"),
        ),
    ),
)
