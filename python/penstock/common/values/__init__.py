"""Values of records: fields, changes, points of time, and their text."""
