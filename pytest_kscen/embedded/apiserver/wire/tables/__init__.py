"""Tables of `kubectl get`: columns by kind, each with a function from object to cell.

A table depends on the objects and the current time only: imports no store and no clock.

Inside:
- `columns`: Column and shared cells. `table`: Printer and the registry of columns.
- `workloads`, `cluster`, `networking`, `storage`, `policies`: columns of built-in kinds.
- `custom`: additionalPrinterColumns of CustomResourceDefinitions.
"""

from pytest_kscen.embedded.apiserver.wire.tables.columns import PLAIN_COLUMNS, Column
from pytest_kscen.embedded.apiserver.wire.tables.custom import custom_columns
from pytest_kscen.embedded.apiserver.wire.tables.table import Printer, columns_of, partial_metadata

__all__ = ["PLAIN_COLUMNS", "Column", "Printer", "columns_of", "custom_columns", "partial_metadata"]
