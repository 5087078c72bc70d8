"""Values of programs: rows, copies, those that are held, timestamps."""
