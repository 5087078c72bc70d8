"""Formats: PyFlink's wrap Java libraries; each module here says what to use instead."""
