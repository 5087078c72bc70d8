"""Small cases whose outcomes were recorded from the real PyFlink."""
