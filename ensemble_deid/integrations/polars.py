"""`series.deid` and `polars.col(...).deid` for polars, from when this module is imported on."""

import polars

from ensemble_deid.integrations.series import ExpressionAccessor, SeriesAccessor

polars.api.register_series_namespace("deid")(SeriesAccessor)
polars.api.register_expr_namespace("deid")(ExpressionAccessor)
