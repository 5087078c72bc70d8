"""Aggregations for tests of several kinds."""

from penstock.datastream.functions import AggregateFunction


class Sum(AggregateFunction):
    """Adds values to a start: numbers to 0, texts to ''."""

    def __init__(self, start=0):
        self.start = start

    def create_accumulator(self):
        return self.start

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, left, right):
        return left + right
