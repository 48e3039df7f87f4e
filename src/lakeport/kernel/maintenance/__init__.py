"""Table maintenance after and between commits: checkpoints, cleanup, vacuum, compaction, restore.

May import all of the kernel.
"""

from lakeport.kernel.maintenance.after_commit import finish_commit
from lakeport.kernel.maintenance.checkpoint_writer import write_checkpoint
from lakeport.kernel.maintenance.packing import Bin, by_partition, is_worn, living_size, partition_of, plan_bins
from lakeport.kernel.maintenance.restore import RestorePlan, plan_restore, restored_definition
from lakeport.kernel.maintenance.vacuum import find_unneeded, may_matter, needed_files
