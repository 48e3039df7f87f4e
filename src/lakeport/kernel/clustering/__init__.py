"""Order rows so that filters on several columns skip files: curves, rows' places on them, the files to reorder, and
the effect.

May import `scan` and all below it.
"""

from lakeport.kernel.clustering.cubes import CLUSTERING_PROVIDER, FULL_CUBE, LARGEST_CUBE, cube_tags, plan_cubes
from lakeport.kernel.clustering.curves import hilbert, interleave
from lakeport.kernel.clustering.effect import FilterCost, Row, costs_of_filters
from lakeport.kernel.clustering.positions import MOST_COLUMNS, RowOrder
