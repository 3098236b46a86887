"""What `kubectl get` shows: for each kind its columns, and for each column a small function from an
object to a cell.

Nothing that asks the store or the clock may enter here: a table is made of objects and of the
instant it is made at."""

from pytest_kscen.embedded.apiserver.wire.tables.columns import PLAIN_COLUMNS, Column
from pytest_kscen.embedded.apiserver.wire.tables.custom import custom_columns
from pytest_kscen.embedded.apiserver.wire.tables.table import Printer, columns_of, partial

__all__ = ["PLAIN_COLUMNS", "Column", "Printer", "columns_of", "custom_columns", "partial"]
