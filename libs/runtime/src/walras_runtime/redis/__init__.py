"""Redis as a place for projections: values that can be lost and rebuilt, never an authority."""
